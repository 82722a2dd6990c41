"""The page itself: an upload on the left, the sentence and its report on the right, and the same as an API."""

from __future__ import annotations

import html
import traceback
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import gradio as gr

from hoca.errors import UserError
from hoca.explain import report
from hoca.web.service import WIDEST, Answer, Service, Stage
from hoca.web.uploads import Uploads

STAGES = {"decoding": 0.05, "features": 0.35, "words": 0.8, "report": 0.9}
BEAM = 5
FAILED = "something went wrong on the server; its log says what"


def build(service: Service, uploads: Uploads, examples: Sequence[Path]) -> gr.Blocks:
    names = list(service.paths)

    def show(video: str | None, model: str, beam: float, progress: gr.Progress = gr.Progress()) -> str:  # noqa: B008
        """For the page: the report, or why there is none; the upload stays, so that another beam can be tried."""
        if video is None:
            return _message("Choose a video first.")
        try:
            return _framed(_answer(service, video, model, beam, _told(progress)))
        except UserError as error:
            return _message(str(error))
        except Exception:
            traceback.print_exc()
            return _message(FAILED)

    def try_example(video: str, progress: gr.Progress = gr.Progress()) -> str:  # noqa: B008
        return show(video, names[0], BEAM, progress)

    def caption(video: str | None, model: str, beam: float) -> dict[str, Any]:
        """For programs: the sentence as JSON; the upload is removed with the answer."""
        if video is None:
            raise gr.Error("no video was given", print_exception=False)
        try:
            return _answer(service, video, model, beam, lambda stage: None).facts()
        except UserError as error:
            raise gr.Error(str(error), print_exception=False) from None
        except Exception:
            traceback.print_exc()
            raise gr.Error(FAILED, print_exception=False) from None
        finally:
            uploads.done(Path(video))

    with gr.Blocks(title="hoca", analytics_enabled=False) as page:
        gr.HTML(_template("header.html"))
        result = gr.HTML(_template("welcome.html"), elem_id="result", min_height=420, render=False)
        with gr.Row():
            with gr.Column(scale=1, min_width=300):
                video = gr.Video(label="Video", sources=["upload", "webcam"], height=300, elem_id="video")
                _take_files_only(video)
                model = gr.Dropdown(names, value=names[0], label="Model", visible=len(names) > 1, elem_id="model")
                beam = gr.Slider(1, WIDEST, value=BEAM, step=1, label="Beam", info="sentences kept in the search")
                button = gr.Button("Caption", variant="primary", elem_id="caption")
                if examples:
                    gr.Examples(
                        [[str(path)] for path in examples],
                        inputs=[video],
                        outputs=result,
                        fn=try_example,
                        run_on_click=True,
                        cache_examples=False,
                        api_visibility="private",
                        label="Or try one of these",
                    )
            with gr.Column(scale=3, min_width=320):
                result.render()
        inputs = [video, model, beam]
        workers = service.decoders.workers
        gr.on(
            [button.click, video.upload, video.stop_recording],
            show,
            inputs,
            result,
            api_visibility="private",
            concurrency_id="caption",
            concurrency_limit=workers,
        )
        with gr.Accordion("Call it from a program", open=False):
            gr.Markdown(_template("api.md"))
            answer = gr.JSON(visible=False)
            hidden = gr.Button(visible=False)
            hidden.click(
                caption, inputs, answer, api_name="caption", concurrency_id="caption", concurrency_limit=workers
            )
    return page


def _take_files_only(video: gr.Video) -> None:
    """Refuse an address in place of a file: the server fetches nothing, for nobody."""
    move = video.async_move_resource_to_block_cache

    async def move_file(path: str | Path | None) -> str | None:
        if path is not None and "://" in str(path):
            raise gr.Error("upload a file: addresses are not fetched", print_exception=False)
        return await move(path)

    # Not a subclass: Gradio writes a stub file beside the source of every subclass of its components.
    video.async_move_resource_to_block_cache = move_file  # type: ignore[assignment]


def _answer(service: Service, video: str, model: str, beam: float, stage: Stage) -> Answer:
    return service.answer(Path(video), model, int(beam), stage)


def _told(progress: gr.Progress) -> Callable[[str], None]:
    return lambda stage: progress(STAGES[stage], desc=stage)


def _framed(answer: Answer) -> str:
    """The report in a frame of its own, which may run its script and nothing else."""
    page = html.escape(report(answer.explanation), quote=True)
    title = html.escape(answer.caption.text, quote=True)
    return f'<iframe class="report" title="{title}" sandbox="allow-scripts" srcdoc="{page}"></iframe>'


def _message(text: str) -> str:
    return f'<p class="problem" role="alert">{html.escape(text)}</p>'


def _template(name: str) -> str:
    return (files("hoca.web") / "template" / name).read_text(encoding="utf-8")
