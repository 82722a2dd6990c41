"""The page itself: an upload on the left, the sentence and its report on the right, and the same as an API."""

from __future__ import annotations

import base64
import html
import os
import traceback
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.exceptions import InvalidPathError

from hoca import media
from hoca.captioning.segments import SHORT_CLIP
from hoca.errors import UserError
from hoca.explain import ExplainedVideo, FilmSegment, film_report, report
from hoca.files import in_units
from hoca.media.subtitles import clock_time
from hoca.web.guard import ORIGIN
from hoca.web.service import WIDEST, Service
from hoca.web.uploads import Uploads

ONE = "one"
CUTS: dict[str, dict[str, Any]] = {"every 10 seconds": {"every": 10.0}, "one for each scene": {"scenes": True}}
STAGES = {"decoding": 0.05, "features": 0.35, "words": 0.8, "report": 0.9}
FAILED = "something went wrong on the server; its log says what"
ADDRESS = "http://127.0.0.1:7860"  # in the manual
NO_UPLOAD = "this is no upload, or it is gone by now: upload the video again"


def build(service: Service, uploads: Uploads, examples: Sequence[Path]) -> gr.Blocks:
    names = list(service.paths)
    width = min(service.model(names[0]).search.beam, WIDEST)

    def explain(video: Path, model: str, beam: float, cut: str, progress: gr.Progress) -> str:
        try:
            if options := CUTS.get(cut):
                told = lambda second, total: progress(  # noqa: E731
                    second / total, desc=f"{clock_time(second)} of {clock_time(total)}"
                )
                return _framed_film(video.name, service.film(video, model, int(beam), done=told, **options))
            return _framed(service.explain(video, model, int(beam), _told(progress)))
        except UserError as error:
            problem = str(error)
        except Exception:
            traceback.print_exc()
            problem = FAILED
        uploads.discard(video)
        return _message(problem)

    def show(
        video: str | None,
        model: str,
        beam: float,
        cut: str,
        progress: gr.Progress = gr.Progress(),  # noqa: B008
    ) -> str:
        """For the page: the report, or why there is none; the upload stays, so that another beam can be tried."""
        if video is None:
            return _message("Choose a video first.")
        if not uploads.holds(Path(video)):
            return _message(NO_UPLOAD)
        return explain(Path(video), model, beam, cut, progress)

    def fill(number: int) -> str:
        """The player shows an example, which is then captioned as an upload would be."""
        return os.path.relpath(uploads.adopt(examples[number]))

    def calls(request: gr.Request | None = None) -> str:
        """How a program calls this server, at the address by which the visitor's browser reached it."""
        address = request.request.scope.get(ORIGIN) if request and request.request else None
        return _template("api.md").replace(ADDRESS, address or ADDRESS).replace("default", names[0])

    def caption(video: str | None, model: str, beam: float) -> dict[str, Any]:
        """For programs: the sentence as JSON; the upload is removed with the answer."""
        if video is None:
            raise gr.Error("no video was given", print_exception=False)
        if not uploads.take(Path(video)):
            raise gr.Error(NO_UPLOAD, print_exception=False)
        try:
            return {"video": Path(video).name} | service.caption(Path(video), model, int(beam)).to_json()
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
                gr.HTML(_limits(service.decoders.limits), padding=False)
                _take_files_only(video, uploads)
                model = gr.Dropdown(names, value=names[0], label="Model", visible=len(names) > 1, elem_id="model")
                beam = gr.Slider(1, WIDEST, value=width, step=1, label="Beam", info="sentences kept in the search")
                cut = gr.Radio([ONE, *CUTS], value=ONE, label="Sentences", info="for longer videos", elem_id="cut")
                button = gr.Button("Caption", variant="primary", elem_id="caption")
                picker = gr.Dataset(
                    components=[gr.HTML(visible=False)],
                    samples=[[_thumbnail(path, service)] for path in examples],
                    type="index",
                    layout="gallery",
                    label="Or try one of these",
                    elem_id="examples",
                )
            with gr.Column(scale=3, min_width=320):
                result.render()
        workers = service.decoders.workers
        gr.on(
            [button.click, video.upload, video.stop_recording],
            show,
            [video, model, beam, cut],
            result,
            api_visibility="private",
            concurrency_id="caption",
            concurrency_limit=workers,
        )
        picker.click(fill, picker, video, api_visibility="private", queue=False, show_progress="hidden").success(
            show, [video, model, beam, cut], result, api_visibility="private", concurrency_id="caption"
        )
        with gr.Accordion("Call it from a program", open=False):
            manual = gr.Markdown(calls())
        page.load(calls, None, manual, api_visibility="private", queue=False, show_progress="hidden")
        # Inputs of its own, which take any value: what is wrong with one is told by `caption`, which then tidies up.
        asked = [gr.Textbox(names[0], label="model", visible=False), gr.Number(width, label="beam", visible=False)]
        gr.Button(visible=False).click(
            caption,
            [video, *asked],
            gr.JSON(label="caption", visible=False),
            api_name="caption",
            concurrency_id="caption",
        )
    _refuse_in_words(page)
    return page


def _refuse_in_words(page: gr.Blocks) -> None:
    """Gradio itself refuses paths outside the folder of uploads, in words that name the folder: say it in ours."""
    preprocess = page.preprocess_data

    async def checked(*arguments: Any, **named: Any) -> Any:
        try:
            return await preprocess(*arguments, **named)
        except InvalidPathError:
            raise gr.Error(NO_UPLOAD, print_exception=False) from None

    page.preprocess_data = checked  # type: ignore[method-assign]


def _take_files_only(video: gr.Video, uploads: Uploads) -> None:
    """Refuse an address in place of a file: the server fetches nothing, for nobody. Leave an upload where it is."""
    move = video.async_move_resource_to_block_cache

    async def move_file(path: str | Path | None) -> str | None:
        if path is not None and "://" in str(path):
            raise gr.Error("upload a file: addresses are not fetched", print_exception=False)
        if path is not None and uploads.holds(Path(path)):
            return str(path)
        return await move(path)

    # Not a subclass: Gradio writes a stub file beside the source of every subclass of its components.
    video.async_move_resource_to_block_cache = move_file  # type: ignore[assignment]


def _told(progress: gr.Progress) -> Callable[[str], None]:
    return lambda stage: progress(STAGES[stage], desc=stage)


def _framed(explanation: ExplainedVideo) -> str:
    """The report of a clip; of one that is long, with the advice to cut it."""
    length = explanation.preview.clock.duration
    advice = (
        f"This plays for {clock_time(length)}, and one sentence is for short clips: choose “{'” or “'.join(CUTS)}”."
    )
    note = advice if length > SHORT_CLIP else ""
    return _frame(report(explanation), explanation.captions[0].text, explanation.video, note)


def _framed_film(video: str, segments: list[FilmSegment]) -> str:
    told = "\n".join(f"{clock_time(each.start)}–{clock_time(each.end)} {each.text}" for each in segments)
    return _frame(film_report(video, segments), told, video)


def _frame(report: str, text: str, video: str, note: str = "") -> str:
    """A report in a frame of its own, which may run its script and nothing else; page.js lends the buttons theirs."""
    page, title = html.escape(report, quote=True), html.escape(text, quote=True)
    name = html.escape(Path(video).stem, quote=True)
    return (
        '<p class="actions"><button type="button" data-do="copy">Copy caption</button> '
        f'<button type="button" data-do="download" data-name="{name}.html">Download report</button>'
        f"{' <span class=advice>' + html.escape(note) + '</span>' if note else ''}</p>"
        f'<iframe class="report" title="{title}" sandbox="allow-scripts" srcdoc="{page}"></iframe>'
    )


def _limits(limits: media.DecodeLimits) -> str:
    """What a visitor may upload; page.js refuses a larger file before it is sent."""
    minutes, seconds = divmod(limits.seconds, 60)
    length = " ".join(filter(None, [f"{minutes:g} min" * (minutes > 0), f"{seconds:g} s" * (seconds > 0)]))
    return f'<p id="limits" data-bytes="{limits.bytes}">Up to {in_units(limits.bytes)} and {length}.</p>'


def _thumbnail(clip: Path, service: Service) -> str:
    """A picture from the middle of a clip, within the page itself: a file's address would name a folder."""
    middle = media.preview(clip, service.decoders.decode, 3).thumbnails[1]
    picture = base64.b64encode(middle.jpeg).decode()
    return f'<img class="example" alt="{html.escape(clip.stem, quote=True)}" src="data:image/jpeg;base64,{picture}">'


def _message(text: str) -> str:
    return f'<p class="problem" role="alert">{html.escape(text)}</p>'


def _template(name: str) -> str:
    return (files("hoca.web") / "template" / name).read_text(encoding="utf-8")
