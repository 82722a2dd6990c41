"""Hostile requests to `hoca serve`, for benchmarks/adversary.py: each is refused or answered, and nothing stays."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, urlsplit

import httpx
from adversary import Outcome

from hoca.bench.processes import tree_bytes
from tests.web.conftest import Server, started
from tests.web.test_guard import CALL, SITE, UPLOAD

JSON = {"content-type": "application/json"}
FORM = {"content-type": "multipart/form-data; boundary=b"}
GROWN = 400 << 20  # bytes that the server may hold more after all of them
SECRETS = ("/etc/passwd", "/proc/self/environ", "/etc/hostname")


@dataclass(frozen=True)
class Probe:
    name: str
    path: str
    method: str = "GET"
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None


def requests(server: Server) -> Iterator[Probe]:
    port = urlsplit(server.address).port
    for host in ("evil.example", "evil.example:80", f"127.0.0.1.evil.example:{port}", "", "127.0.0.1:1@evil", "[::1"):
        for place in ("/", UPLOAD, "/gradio_api/queue/data?session_hash=x"):
            yield Probe(f"host {host!r}, {place}", place, headers={"host": host})
    for origin in ("https://evil.example", "null", SITE, f"http://localhost:{port}.evil.example", "file://"):
        yield Probe(f"origin {origin}", CALL, "POST", {"origin": origin} | JSON, b'{"data": [null, "bound", 2]}')
    for secret in (*SECRETS, "../../../../etc/passwd", "uploads/../../../etc/passwd", str(server.folder / "log")):
        yield Probe(f"file={secret}", f"/gradio_api/file={quote(secret)}")
        yield Probe(f"raw file={secret}", f"/gradio_api/file={secret}")
        given = {"path": secret, "meta": {"_type": "gradio.FileData"}}
        yield Probe(f"a call for {secret}", CALL, "POST", JSON, json.dumps({"data": [given, "bound", 2]}).encode())
    for address in ("http://127.0.0.1:9/a.mp4", "file:///etc/passwd", "http://169.254.169.254/latest/meta-data"):
        given = {"path": address, "url": address, "meta": {"_type": "gradio.FileData"}}
        yield Probe(f"a call for {address}", CALL, "POST", JSON, json.dumps({"data": [given, "bound", 2]}).encode())
        yield Probe(f"proxy={address}", f"/gradio_api/proxy={address}")
    bodies = {
        "no JSON": b"{",
        "a list": b"[]",
        "nothing": b"",
        "a number": b"7",
        "deep": b"[" * 100_000,
        "no data": b"{}",
        "too few": b'{"data": []}',
        "too many": json.dumps({"data": [None] * 10_000}).encode(),
        "a huge beam": b'{"data": [null, "bound", 1e308]}',
        "another model": b'{"data": [null, "../../etc", 2]}',
        "a model that is a table": b'{"data": [null, {"a": 1}, 2]}',
        "half a character": b'{"data": ["\\ud800", "bound", 2]}',
        "bytes": os.urandom(2000),
        "a large body": b'{"data": ["' + b"x" * 3_000_000 + b'"]}',
    }
    for name, body in bodies.items():
        yield Probe(f"a call: {name}", CALL, "POST", JSON, body)
        yield Probe(f"the queue: {name}", "/gradio_api/queue/join", "POST", JSON, body)
    part = b'--b\r\nContent-Disposition: form-data; name="files"; filename="%s"\r\n\r\nx\r\n--b--\r\n'
    for name in (b"../../x.mp4", b"/etc/x.mp4", b"a\0b.mp4", b"x" * 5000, b"..", b"", b"CON.mp4", b"\xff\xfe.mp4"):
        yield Probe(f"an upload named {name[:20]!r}", UPLOAD, "POST", FORM, part % name)
    yield Probe("an upload without end", UPLOAD, "POST", FORM, b"--b\r\n")
    yield Probe("an upload of another kind", UPLOAD, "POST", {"content-type": "text/plain"}, b"x")
    yield Probe("a form of a thousand parts", UPLOAD, "POST", FORM, (part % b"a")[:-6] * 1000)
    yield Probe("a large header", "/", headers={"x-long": "x" * 200_000})
    yield Probe("a long address", "/" + "x" * 100_000)
    yield Probe("another method", "/", "TRACE")
    yield Probe("a deletion", "/gradio_api/file=uploads", "DELETE")
    yield Probe("no session", "/gradio_api/queue/data?session_hash=")
    yield Probe("another's event", f"{CALL}/0123456789abcdef")
    for place in ("/gradio_api/reset", "/gradio_api/cancel", "/gradio_api/component_server", "/login"):
        yield Probe(f"a post to {place}", place, "POST", JSON, b'{"event_id": "../x", "fn_index": -1}')


POST = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n"
RAW = {
    "no HTTP": b"\x16\x03\x01" + bytes(50),
    "two lengths": POST + b"Content-Length: 5\r\nContent-Length: 50\r\n\r\nabcde",
    "a length and chunks": POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET",
    "a negative length": POST + b"Content-Length: -1\r\n\r\n",
    "a chunk of 2^63": POST + b"Transfer-Encoding: chunked\r\n\r\n7fffffffffffffff\r\nabc",
    "half a request": b"GET / HT",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
}


def probes(model: Path, clip: Path, folder: Path) -> list[Outcome]:
    """Send all of them to a server with that model; last, a real clip must still be captioned."""
    place = folder / "served"
    place.mkdir()
    outcomes = []
    with started(place, model) as server, httpx.Client(timeout=60) as client:
        caption(client, server, clip)
        before, files = tree_bytes(server.process.pid), descriptors(server)
        for probe in requests(server):
            outcomes.append(ask(client, server, probe))
        outcomes += [ask_raw(server, name, content) for name, content in RAW.items()]
        outcomes.append(end(client, server, clip, before, files))
    for outcome in outcomes:
        if outcome.problem:
            print(f"PROBLEM web: {outcome.name!r}: {outcome.problem}", flush=True)
    return outcomes


def ask(client: httpx.Client, server: Server, probe: Probe) -> Outcome:
    begun, status, text = time.monotonic(), 0, ""
    try:
        address = server.address + probe.path
        with client.stream(probe.method, address, headers=probe.headers, content=probe.body) as answer:
            status = answer.status_code
            end = time.monotonic() + 5
            for piece in answer.iter_text():
                text += piece
                if time.monotonic() > end or len(text) > 10**6:
                    break  # events of a queue go on
        if status == 200 and probe.path == CALL and "event_id" in text:
            text += client.get(f"{server.address}{CALL}/{json.loads(text)['event_id']}").text
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        text = type(error).__name__  # it hung up, or no client would send this
    text = text.replace(str(server.folder / "log"), "")  # what the request itself said
    return judged(server, probe.name, status, text, time.monotonic() - begun)


def ask_raw(server: Server, name: str, content: bytes) -> Outcome:
    place = urlsplit(server.address)
    begun, answer = time.monotonic(), b""
    with socket.create_connection((place.hostname, place.port), timeout=10) as connection:
        connection.settimeout(2)
        with contextlib.suppress(OSError):
            connection.sendall(content)
            answer = connection.recv(65536)
    status = int(answer.split(b" ")[1]) if answer.startswith(b"HTTP/") else 0
    return judged(server, f"raw: {name}", status, answer.decode("latin-1"), time.monotonic() - begun)


def judged(server: Server, name: str, status: int, text: str, seconds: float) -> Outcome:
    problem = ""
    told = [secret for secret in ("root:x:0", str(server.folder), "Traceback", "PATH=", "hoca is at") if secret in text]
    if server.process.poll() is not None:
        problem = f"the server ended with status {server.process.returncode}"
    elif told:
        problem = f"it tells {told[0]}"
    elif status == 500:
        problem = "an error of the server itself (500)"
    return Outcome("web", name, status == 200, problem, seconds, 0.0)


def caption(client: httpx.Client, server: Server, clip: Path) -> str:
    path = client.post(server.address + UPLOAD, files={"files": (clip.name, clip.read_bytes())}).json()[0]
    data = [{"path": path, "meta": {"_type": "gradio.FileData"}}, "model", 2]
    event = client.post(server.address + CALL, json={"data": data}).json()["event_id"]
    return client.get(f"{server.address}{CALL}/{event}").text


def descriptors(server: Server) -> int:
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


def end(client: httpx.Client, server: Server, clip: Path, before: int, files: int) -> Outcome:
    begun = time.monotonic()
    answer = caption(client, server, clip)
    while (server.parts() or descriptors(server) > files + 10) and time.monotonic() < begun + 20:
        time.sleep(0.2)
    grown, more = tree_bytes(server.process.pid) - before, descriptors(server) - files
    problem = "" if "event: complete" in answer else f"a real clip is not captioned any more: {answer[:200]}"
    if grown > GROWN or more > 10:
        problem = problem or f"it holds {grown >> 20} MiB and {more} descriptors more than before"
    if server.parts():
        problem = problem or f"parts of uploads are left: {len(server.parts())}"
    return Outcome("web", "a real clip after all this", not problem, problem, time.monotonic() - begun, grown / 2**20)
