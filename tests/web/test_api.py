"""The API as programs call it: answers, refusals, twenty at once, and nothing left behind."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest

import hoca
from hoca.web.page import ONE

from ..explain.trained import clips
from .conftest import MEGABYTES, Server

pytest.importorskip("gradio_client", reason="needs Gradio: pip install 'hoca[web]'")

from gradio_client import Client, handle_file
from gradio_client.exceptions import AppError

NO_UPLOAD = "this is no upload, or it is gone by now: upload the video again"


@pytest.fixture(scope="module")
def client(server: Server) -> Client:
    return Client(server.address, verbose=False, analytics_enabled=False)


def test_the_answer_is_that_of_the_model(client: Client, data: Path, run: Path) -> None:
    model = hoca.load(run)
    for clip in (clips(data, silent=False)[0], clips(data, silent=True)[0]):
        answer = client.predict(handle_file(str(clip)), "bound", 3, api_name="/caption")
        caption = model.caption(clip, replace(model.search, beam=3))
        assert (answer["video"], answer["text"]) == (clip.name, caption.text)
        assert answer["logprob"] == pytest.approx(caption.logprob, abs=1e-4)
        assert answer["confidence"] == caption.confidence == pytest.approx(0.119, abs=1e-3)
        assert [each["text"] for each in answer["alternatives"]] == [text for text, _ in caption.alternatives]
        assert answer["absent"] == caption.absent
        fields = ["video", "text", "logprob", "score", "score_parts", "confidence", "alternatives", "absent", "seconds"]
        assert list(answer) == fields
        documented = (Path(__file__).parents[2] / "docs" / "serve.md").read_text(encoding="utf-8")
        assert all(f"| `{field}` |" in documented for field in fields)
        assert list(answer["seconds"]) == ["backbones", "decoding", "features", "words"]


def test_the_documented_curl_commands_work(server: Server, data: Path, tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("needs curl, absent here: apt-get install curl")
    text = (files("hoca.web") / "template" / "api.md").read_text(encoding="utf-8")
    script = re.search(r"```sh\n(.*?)```", text, re.DOTALL)[1].replace("http://127.0.0.1:7860", server.address)
    shutil.copy(clips(data, silent=False)[0], tmp_path / "clip.mp4")
    script = script.replace('\\"default\\"', '\\"bound\\"')
    done = subprocess.run(["bash", "-ec", script], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert "event: complete" in done.stdout, done.stdout + done.stderr
    assert json.loads(done.stdout.partition("data: ")[2].splitlines()[0])[0]["video"] == "clip.mp4"


def test_twenty_requests_at_once_are_all_answered(server: Server, data: Path, tmp_path: Path) -> None:
    sources = [*clips(data, silent=False), *clips(data, silent=True)]
    copies = [Path(shutil.copy(sources[i % len(sources)], tmp_path / f"clip-{i % 5}-{i // 10}.mp4")) for i in range(20)]
    visitors = [Client(server.address, verbose=False, analytics_enabled=False) for _ in range(4)]

    def ask(number: int) -> str:
        return visitors[number % 4].predict(handle_file(str(copies[number])), "bound", 2, api_name="/caption")["text"]

    with ThreadPoolExecutor(20) as threads:
        answers = list(threads.map(ask, range(20)))
    assert len(answers) == 20
    assert all(answers)
    assert server.uploads() == []  # equal files among them, and none was lost before its turn


@pytest.mark.parametrize(
    ("content", "model", "beam", "message"),
    [
        (b"this is no video\n", "bound", 2, r"^clip\.mp4 is not a video that can be read"),
        (b"", "bound", 2, r"clip\.mp4"),
        (None, "nosuch", 2, "^there is no model 'nosuch' here"),
        (None, "bound", 99, "^beam=99: choose 1 to 10"),
    ],
)
def test_a_mistake_is_told_in_one_line(
    client: Client,
    server: Server,
    data: Path,
    tmp_path: Path,
    content: bytes | None,
    model: str,
    beam: int,
    message: str,
) -> None:
    clip = tmp_path / "clip.mp4"
    clip.write_bytes(clips(data, silent=False)[0].read_bytes() if content is None else content)
    with pytest.raises(AppError) as told:
        client.predict(handle_file(str(clip)), model, beam, api_name="/caption")
    assert re.search(message, str(told.value)), told.value
    assert "\n" not in str(told.value)
    assert str(server.folder) not in str(told.value)
    assert "clip.mp4" not in server.uploads()


def upload(server: Server, clip: Path) -> str:
    """The path that the server gives to a file."""
    httpx = pytest.importorskip("httpx")
    answer = httpx.post(f"{server.address}/gradio_api/upload", files={"files": (clip.name, clip.read_bytes())})
    return answer.json()[0]


def ask(server: Server, path: str, **more: object) -> str:
    """What the server says to a call for this path, whoever made it up."""
    data = [{"path": path, "meta": {"_type": "gradio.FileData"}, **more}, "bound", 2]
    body = json.dumps({"data": data}).encode()
    call = urllib.request.Request(
        f"{server.address}/gradio_api/call/caption", body, {"content-type": "application/json"}
    )
    event = json.load(urllib.request.urlopen(call))["event_id"]
    return urllib.request.urlopen(f"{server.address}/gradio_api/call/caption/{event}").read().decode()


def refused(server: Server, answer: str) -> bool:
    return "event: error" in answer and NO_UPLOAD in answer and str(server.folder) not in answer


@pytest.fixture
def waiting(server: Server, data: Path, tmp_path: Path) -> Iterator[str]:
    """The path of a visitor's upload; whatever others do meanwhile, its call is answered."""
    clip = Path(shutil.copy(clips(data, silent=False)[0], tmp_path / "waiting.mp4"))
    path = upload(server, clip)
    yield path
    assert "event: complete" in ask(server, path)
    assert "waiting.mp4" not in server.uploads()


@pytest.mark.parametrize(
    "path",
    [
        "uploads", "uploads/", "uploads/.", "uploads/x/..", "{folder}/uploads", "uploads/{hash}", "uploads/{hash}/",
        "uploads/{hash}/../{hash}", "uploads/{hash}/none.mp4", "uploads/{hash}/waiting.mp4/x", "..", ".", "", "/",
        "../log", "{folder}", "/etc/passwd", "examples", "file:///etc/passwd",
    ],
)  # fmt: skip
@pytest.mark.parametrize("more", [{}, {"is_stream": True}])
def test_what_is_no_upload_is_refused_and_nothing_is_removed(
    server: Server, waiting: str, path: str, more: dict[str, object]
) -> None:
    path = path.format(folder=server.working_folder, hash=waiting.split("/")[-2])
    assert refused(server, ask(server, path, **more))


def test_an_address_is_not_fetched(server: Server) -> None:
    answer = ask(server, "http://127.0.0.1:9/clip.mp4")
    assert "event: error" in answer
    assert "addresses are not fetched" in answer


def test_a_link_is_neither_captioned_nor_followed(server: Server, data: Path, tmp_path: Path) -> None:
    mine = Path(shutil.copy(clips(data, silent=False)[1], tmp_path / "mine.mp4"))
    path = upload(server, Path(shutil.copy(mine, tmp_path / "linked.mp4")))
    place = server.working_folder / path
    place.unlink()
    place.symlink_to(mine)
    assert refused(server, ask(server, path))
    assert mine.is_file()
    assert place.is_symlink()
    place.unlink()


def test_a_file_that_no_call_is_owed_for_is_refused_and_stays(server: Server, data: Path) -> None:
    place = server.working_folder / "uploads" / ("0" * 64) / "other.mp4"
    place.parent.mkdir()
    shutil.copy(clips(data, silent=False)[0], place)
    for path in (place.relative_to(server.working_folder), place):
        assert refused(server, ask(server, str(path)))
        assert place.is_file()
    shutil.rmtree(place.parent)


def test_the_page_shows_uploads_only(server: Server, data: Path) -> None:
    place = server.working_folder / "uploads" / ("0" * 64) / "other.mp4"
    place.parent.mkdir()
    shutil.copy(clips(data, silent=False)[0], place)
    given = {"path": str(place), "meta": {"_type": "gradio.FileData"}}
    body = json.dumps({"data": [given, "bound", 2, ONE], "fn_index": 0, "session_hash": "page"}).encode()
    headers = {"content-type": "application/json"}
    urllib.request.urlopen(urllib.request.Request(f"{server.address}/gradio_api/queue/join", body, headers))
    answer = urllib.request.urlopen(f"{server.address}/gradio_api/queue/data?session_hash=page").read().decode()
    assert NO_UPLOAD in answer
    assert "iframe" not in answer
    assert place.is_file()
    shutil.rmtree(place.parent)


def test_each_upload_pays_for_one_call(server: Server, data: Path, tmp_path: Path) -> None:
    clip = Path(shutil.copy(clips(data, silent=False)[0], tmp_path / "twice.mp4"))
    path = upload(server, clip)
    assert upload(server, clip) == path
    assert "event: complete" in ask(server, path)
    assert "twice.mp4" in server.uploads()  # the other one waits
    assert "event: complete" in ask(server, path)
    assert "twice.mp4" not in server.uploads()
    assert refused(server, ask(server, path))


def test_an_upload_that_is_too_large_is_refused(server: Server, tmp_path: Path) -> None:
    pytest.importorskip("httpx")
    import httpx

    large = os.urandom(MEGABYTES * 10**6 + 1)
    answer = httpx.post(f"{server.address}/gradio_api/upload", files={"files": ("large.mp4", large)})
    assert answer.status_code == 413
    assert "large.mp4" not in server.uploads()


@pytest.mark.parametrize("place", ["/", "/config", "/gradio_api/info"])
def test_no_path_of_the_server_is_shown(server: Server, run: Path, place: str) -> None:
    shown = urllib.request.urlopen(server.address + place).read().decode()
    for folder in (server.folder, run, Path(hoca.__file__).parent, Path.home()):
        assert str(folder) not in shown


def test_it_listens_on_this_machine_alone(server: Server) -> None:
    assert server.address.startswith("http://127.0.0.1:")


def test_the_page_and_the_manual_show_the_same_calls() -> None:
    manual = (Path(__file__).parents[2] / "docs" / "serve.md").read_text(encoding="utf-8")
    shown = (files("hoca.web") / "template" / "api.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```(?:python|sh)\n.*?```", shown, re.DOTALL)
    assert len(blocks) == 2
    assert all(block in manual for block in blocks)
