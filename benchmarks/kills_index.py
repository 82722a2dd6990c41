"""A small asset, and a slow package index on this machine that serves it, for benchmarks/kills.py."""

from __future__ import annotations

import hashlib
import os
import signal
import socket
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from hoca.assets.table import TABLE, Asset

PIECE = 1 << 17
PAUSE = 0.02  # seconds between pieces, so that there is time to be killed


def convert(archive: Path, target: Path) -> None:
    with zipfile.ZipFile(archive) as wheel:
        save_file({"values": np.frombuffer(wheel.read("toy/values"), np.uint8)}, target)


@contextmanager
def served(folder: Path) -> Iterator[tuple[Callable[[Path], None], str]]:
    """The asset `toy` of a slow index: yields what chooses a cache folder, and the name of the archive."""
    wheel = folder / "toy_values-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("toy/values", np.random.default_rng(0).bytes(4 << 20))
    content = wheel.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    TABLE["toy"] = Asset("toy", "toy-values", "1.0", wheel.name, digest, "CC0", len(content), "a trial", convert)

    class Index(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.path.endswith(wheel.name)
            first = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").removesuffix("-")) if wanted else 0
            body = content[first:] if wanted else f'<a href="/{wheel.name}">{wheel.name}</a>'.encode()
            self.send_response(206 if first else 200)
            self.send_header("Content-Type", "application/octet-stream" if wanted else "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with suppress(OSError):  # the other side was killed
                for place in range(0, len(body), PIECE):
                    self.wfile.write(body[place : place + PIECE])
                    time.sleep(PAUSE)

        def log_message(self, format: str, *values: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Index, bind_and_activate=False) as server:
        server.allow_reuse_address = True
        server.server_bind()
        server.server_activate()
        port = server.socket.getsockname()[1]
        process = os.fork()  # in a thread it would be copied by every later fork
        if process == 0:
            with suppress(BaseException):
                server.serve_forever()
            os._exit(0)
    names = ("PIP_CONFIG_FILE", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX", "NO_PROXY")
    values = (os.devnull, f"http://127.0.0.1:{port}/simple", "", "", "", "127.0.0.1")
    before = dict(os.environ)
    os.environ |= dict(zip(names, values, strict=True))
    assert socket.create_connection(("127.0.0.1", port), 5).close() is None
    try:
        yield lambda place: os.environ.__setitem__("HOCA_HOME", str(place)), wheel.name
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        del TABLE["toy"]
        os.environ.clear()
        os.environ |= before
