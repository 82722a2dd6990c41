"""What the server refuses, and that nothing of it stays: broken uploads, large bodies, foreign pages, many calls."""

from __future__ import annotations

import shutil
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from hoca.errors import UserError
from hoca.web.serve import ServeSettings, _working_folder

from ..explain.trained import clips
from .conftest import Server, started

httpx = pytest.importorskip("httpx", reason="needs Gradio: pip install 'hoca[web]'")

UPLOAD, CALL = "/gradio_api/upload", "/gradio_api/call/caption"
SITE = "https://captions.example.org"


def within(seconds: float, what: Callable[[], bool]) -> bool:
    end = time.monotonic() + seconds
    while not what() and time.monotonic() < end:
        time.sleep(0.05)
    return what()


def begin_upload(server: Server) -> socket.socket:
    """A connection on which half of an upload was sent."""
    place = urlsplit(server.address)
    connection = socket.create_connection((place.hostname, place.port))
    part = b'--b\r\nContent-Disposition: form-data; name="files"; filename="half.mp4"\r\n\r\n' + bytes(200_000)
    head = f"POST {UPLOAD} HTTP/1.1\r\nHost: {place.netloc}\r\nContent-Length: 400000\r\n"
    connection.sendall(head.encode() + b"Content-Type: multipart/form-data; boundary=b\r\n\r\n" + part)
    return connection


def test_an_upload_that_is_broken_off_leaves_nothing(server: Server) -> None:
    with closing(begin_upload(server)):
        assert within(10, lambda: len(server.parts()) == 1)
    assert within(10, lambda: server.parts() == [])


def test_a_broken_upload_goes_while_others_are_under_way(server: Server) -> None:
    with closing(begin_upload(server)):
        with closing(begin_upload(server)):
            assert within(10, lambda: len(server.parts()) == 2)
        assert within(10, lambda: len(server.parts()) == 1)
    assert within(10, lambda: server.parts() == [])


def test_a_file_that_is_sent_as_something_else_leaves_nothing(server: Server) -> None:
    httpx.post(server.address + UPLOAD, files={"other": ("clip.mp4", b"0" * 1000)})
    assert within(10, lambda: server.parts() == [])


@pytest.mark.parametrize("told", [True, False], ids=["its length is told", "in chunks"])
@pytest.mark.parametrize("place", [CALL, UPLOAD, "/gradio_api/queue/join", "/login"])
def test_a_large_body_is_refused(server: Server, place: str, told: bool) -> None:
    body = b'{"data": ["' + b"x" * 3_000_000 + b'"]}'
    content = body if told else iter([body[i : i + 50_000] for i in range(0, len(body), 50_000)])
    form = place == UPLOAD
    kind = "multipart/form-data; boundary=b" if form else "application/json"
    if form:
        start = b'--b\r\nContent-Disposition: form-data; name="x"\r\n\r\n'
        content = start + body if told else iter([start, *content])
    try:
        answer = httpx.post(server.address + place, content=content, headers={"content-type": kind}).status_code
    except httpx.WriteError:  # it hung up before all was sent
        answer = 413
    assert answer == 413


@pytest.mark.parametrize("host", ["evil.example", "evil.example:7860", "127.0.0.1.evil.example", ""])
@pytest.mark.parametrize("place", ["/", "/config", UPLOAD])
def test_a_name_that_is_not_the_servers_is_refused(server: Server, host: str, place: str) -> None:
    method = "POST" if place == UPLOAD else "GET"
    assert httpx.request(method, server.address + place, headers={"host": host}).status_code == 400


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "[::1]"])
def test_names_of_this_machine_are_answered(server: Server, name: str) -> None:
    host = f"{name}:{urlsplit(server.address).port}"
    assert httpx.get(server.address + "/config", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "http://127.0.0.1:1", "http://localhost", "null", SITE])
@pytest.mark.parametrize("place", [UPLOAD, CALL, "/gradio_api/queue/join", "/gradio_api/cancel"])
def test_pages_of_other_sites_cannot_post(server: Server, origin: str, place: str) -> None:
    files = {"files": ("foreign.mp4", b"0")}
    answer = httpx.post(server.address + place, files=files, headers={"origin": origin})
    assert (answer.status_code, "--allow-origin" in answer.text) == (403, True)
    assert server.uploads() == []


def test_its_own_page_posts(server: Server) -> None:
    answer = httpx.post(server.address + CALL, json={"data": [None, "bound", 2]}, headers={"origin": server.address})
    assert answer.status_code == 200


@pytest.fixture(scope="module")
def small(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with room for three uploads of half a megabyte, one call in line, and a site that is let in."""
    options = ["--total-megabytes", "2", "--waiting", "1", "--allow-origin", SITE]
    with started(tmp_path_factory.mktemp("small"), run, options=options) as running:
        yield running


def test_a_site_that_is_let_in_posts_and_lends_its_name(small: Server) -> None:
    answer = httpx.post(
        small.address + CALL,
        json={"data": [None, "bound", 2]},
        headers={"origin": SITE, "host": urlsplit(SITE).netloc},
    )
    assert answer.status_code == 200


def asked_first(server: Server, origin: str) -> httpx.Response:
    """What a browser asks before it posts for a page of another site."""
    wanted = {"access-control-request-method": "POST", "access-control-request-headers": "content-type"}
    return httpx.options(server.address + CALL, headers={"origin": origin} | wanted)


def test_a_browser_is_told_which_sites_are_let_in(small: Server) -> None:
    allowed = "access-control-allow-origin"
    answer = asked_first(small, SITE)
    assert (answer.status_code, answer.headers[allowed]) == (200, SITE)
    assert allowed not in asked_first(small, "https://evil.example").headers
    called = httpx.post(small.address + CALL, json={"data": [None, "bound", 2]}, headers={"origin": SITE})
    assert (called.status_code, called.headers[allowed]) == (200, SITE)
    name = urlsplit(SITE).netloc  # by a name that is not this machine's, Gradio alone would let every page read
    for origin, told in ((SITE, SITE), ("https://evil.example", None)):
        headers = {"origin": origin, "host": name}
        assert httpx.get(small.address + "/config", headers=headers).headers.get(allowed) == told


def test_more_uploads_than_there_is_room_for_are_refused_until_there_is(small: Server) -> None:
    def send(number: int) -> httpx.Response:
        return httpx.post(small.address + UPLOAD, files={"files": (f"{number}.mp4", bytes([number]) * 500_000)})

    kept = [send(number) for number in range(3)]
    assert [answer.status_code for answer in kept] == [200] * 3
    refused = send(4)
    assert refused.status_code == 507
    assert int(refused.headers["retry-after"]) > 0
    assert "try again" in refused.text
    for answer in kept:  # calls on them, which fail: they are no videos
        caption(small, answer.json()[0])
    last = send(5)
    assert last.status_code == 200
    caption(small, last.json()[0])
    assert small.uploads() == []


def caption(server: Server, path: str) -> str:
    """The answer to a call."""
    called = call(server, path)
    assert called.status_code == 200
    return httpx.get(f"{server.address}{CALL}/{called.json()['event_id']}", timeout=60).text


def call(server: Server, path: str) -> httpx.Response:
    data = [{"path": path, "meta": {"_type": "gradio.FileData"}}, "bound", 2]
    return httpx.post(server.address + CALL, json={"data": data}, timeout=60)


def test_calls_beyond_the_line_are_told_when_to_come_back_and_leave_no_upload(small: Server, data: Path) -> None:
    content = clips(data, silent=False)[0].read_bytes()
    paths = [
        httpx.post(small.address + UPLOAD, files={"files": (f"{n}.mp4", content + bytes(n))}).json()[0]
        for n in range(12)
    ]
    with ThreadPoolExecutor(12) as threads:
        answers = list(threads.map(lambda path: call(small, path), paths))
    refused = [answer for answer in answers if answer.status_code == 503]
    assert refused
    assert all(int(answer.headers["retry-after"]) > 0 for answer in refused)
    assert {answer.status_code for answer in answers} == {200, 503}
    for answer in answers:
        if answer.status_code == 200:
            event = answer.json()["event_id"]
            assert "event: complete" in httpx.get(f"{small.address}{CALL}/{event}", timeout=60).text
    assert small.uploads() == []


def test_what_a_killed_server_left_is_removed_at_the_next_start(run: Path, tmp_path: Path) -> None:
    with started(tmp_path, run) as server:
        httpx.post(server.address + UPLOAD, files={"files": ("left.mp4", b"0")})
        server.process.kill()
        server.process.wait()
        assert server.uploads() == ["left.mp4"]
    with started(tmp_path, run) as server:
        assert server.uploads() == []
        assert len(list(tmp_path.glob("hoca-serve-*"))) == 1
    assert not list(tmp_path.glob("hoca-serve-*"))


def test_the_folder_of_a_server_that_lives_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    mine = tmp_path / "hoca-serve-mine"  # of somebody who likes the name
    mine.mkdir()
    link = tmp_path / "hoca-serve-link"
    link.symlink_to(mine)
    with _working_folder() as one, _working_folder() as other:
        assert one.is_dir()
        assert other.is_dir()
        shutil.copytree(one, tmp_path / "hoca-serve-dead")
        with _working_folder():
            assert one.is_dir()
            assert not (tmp_path / "hoca-serve-dead").exists()
    assert sorted(tmp_path.iterdir()) == [link, mine]


@pytest.mark.parametrize("origin", ["example.org", "https://", "ftp://example.org", "https://example.org/page", "*"])
def test_what_is_no_origin_is_refused(origin: str) -> None:
    with pytest.raises(UserError, match="--allow-origin"):
        ServeSettings(allow_origins=(origin,))


def test_one_upload_must_fit_into_the_room_for_all() -> None:
    with pytest.raises(UserError, match="--total-megabytes"):
        ServeSettings(megabytes=100, total_megabytes=100)
