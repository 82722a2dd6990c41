"""What can keep the page from starting is told in one line."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from hoca.errors import UserError
from hoca.web import ServeSettings, serve

from ..conftest import Command


def test_a_port_that_is_taken(hoca: Command) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        done = hoca("serve", "--port", str(other.getsockname()[1]))
    assert done.code == 2
    assert "give another --port" in done.complaint


def test_an_address_of_another_machine() -> None:
    with pytest.raises(UserError, match="cannot listen on 192\\.0\\.2\\.1"):
        serve(ServeSettings(host="192.0.2.1", port=0))


def test_gradio_is_missing() -> None:
    code = (
        "import sys; sys.modules['gradio'] = None\n"
        "from hoca.web import ServeSettings, serve\n"
        "serve(ServeSettings(port=0))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1].endswith("`hoca serve` needs Gradio: pip install 'hoca[web]'")


def test_a_model_that_is_not_there(hoca: Command, tmp_path: Path) -> None:
    pytest.importorskip("gradio", reason="needs Gradio: pip install 'hoca[web]'")
    before = Path.cwd()
    done = hoca("serve", "--port", "0", "--model", tmp_path / "nosuch")
    assert done.code == 2
    assert "nosuch" in done.complaint
    assert Path.cwd() == before
