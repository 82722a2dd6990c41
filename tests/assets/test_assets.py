from __future__ import annotations

import hashlib
import multiprocessing
import zipfile
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from hoca import assets
from hoca.assets import cache, index
from hoca.assets.table import TABLE, Asset
from hoca.errors import UserError


def _convert(archive: Path, target: Path) -> None:
    with zipfile.ZipFile(archive) as wheel:
        save_file({"words": np.frombuffer(wheel.read("toy/words.txt"), np.uint8)}, target)


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Asset:
    """An asset in a small wheel, which pip's configuration leads to."""
    links = tmp_path / "links"
    links.mkdir()
    wheel = links / "toy_words-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("toy/words.txt", "a dog\n")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    asset = Asset("toy", "toy-words", "1.0", wheel.name, digest, "CC0", wheel.stat().st_size, "tests", _convert)
    monkeypatch.setitem(TABLE, "toy", asset)
    monkeypatch.setenv("HOCA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PIP_FIND_LINKS", str(links))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    return asset


def test_an_asset_is_fetched_converted_and_kept(toy: Asset, capsys: pytest.CaptureFixture[str]) -> None:
    file = assets.path("toy")
    assert load_file(file)["words"].tobytes() == b"a dog\n"
    assert capsys.readouterr().err.count("\n") == 1
    assert assets.path("toy") == file
    assert capsys.readouterr().err == ""
    assert [status.file for status in assets.listing() if status.asset.name == "toy"] == [file]
    assert not [rest for rest in file.parent.iterdir() if rest.suffix in (".whl", ".part", ".tmp")]


def test_a_file_brought_by_hand_needs_no_index(toy: Asset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    brought = tmp_path / "links" / toy.archive
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    assert assets.pull("toy", brought).is_file()
    assert brought.is_file()


def test_verify_notices_damage(toy: Asset) -> None:
    with pytest.raises(UserError, match="hoca assets pull toy"):
        assets.verify("toy")
    file = assets.path("toy")
    assert assets.verify("toy")
    file.write_bytes(file.read_bytes() + b"x")
    assert not assets.verify("toy")


def test_another_file_is_refused_and_leaves_nothing(toy: Asset, tmp_path: Path) -> None:
    other = tmp_path / "other.whl"
    other.write_bytes(b"not it")
    with pytest.raises(UserError, match="SHA-256"):
        assets.pull("toy", other)
    assert assets.listing()[-1].file is None


def test_a_wrong_archive_of_the_index_is_refused(toy: Asset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TABLE, "toy", replace(toy, sha256="0" * 64))
    with pytest.raises(UserError, match="SHA-256"):
        assets.path("toy")


@pytest.mark.parametrize("whole", [False, True])
def test_an_interrupted_download_goes_on(
    toy: Asset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: bool
) -> None:
    """From an index that sends the rest, or, though asked for it, the whole file again."""
    content = (tmp_path / "links" / toy.archive).read_bytes()
    sent = []

    class Index(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            first, body = 0, f'<a href="/{toy.archive}">{toy.archive}</a>'.encode()
            if self.path == f"/{toy.archive}":
                first = 0 if whole else int(self.headers["Range"].removeprefix("bytes=").removesuffix("-"))
                body = content[first:]
                sent.append(len(body))
            self.send_response(206 if first else 200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(body)

    for name, value in {"FIND_LINKS": "", "NO_INDEX": "", "EXTRA_INDEX_URL": ""}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    (cache.folder() / f"{toy.archive}.part").write_bytes(content[:50])
    with ThreadingHTTPServer(("127.0.0.1", 0), Index) as server:
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/simple")
        Thread(target=server.serve_forever, daemon=True).start()
        file = assets.path("toy")
        server.shutdown()
    assert load_file(file)["words"].tobytes() == b"a dog\n"
    assert sent == [len(content) - (0 if whole else 50)]


def test_an_index_that_sends_more_than_the_archive_is_stopped(
    toy: Asset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = []

    class Index(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            if self.path != f"/{toy.archive}":
                self.wfile.write(f'<a href="/{toy.archive}">{toy.archive}</a>'.encode())
                return
            with suppress(OSError):  # the other side hangs up
                while len(sent) < 64:
                    self.wfile.write(bytes(1 << 20))
                    sent.append(1)

    for name, value in {"FIND_LINKS": "", "NO_INDEX": "", "EXTRA_INDEX_URL": ""}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with ThreadingHTTPServer(("127.0.0.1", 0), Index) as server:
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/simple")
        Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(UserError, match=r"more than the .* bytes that it has"):
            assets.path("toy")
        server.shutdown()
    assert len(sent) < 64
    assert not (cache.folder() / f"{toy.archive}.part").exists()


def test_a_file_larger_than_the_archive_is_not_copied(toy: Asset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TABLE, "toy", replace(toy, size=toy.size - 1))
    with pytest.raises(UserError, match=r"more than the \d+ bytes"):
        assets.path("toy")
    assert not (cache.folder() / f"{toy.archive}.part").exists()


def test_no_connection_is_one_clear_line(toy: Asset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    with pytest.raises(UserError, match=r"hoca assets pull toy --from toy_words-1\.0") as error:
        assets.pull("toy")
    assert "\n" not in str(error.value)


def test_unknown_names_are_answered_with_the_known_ones() -> None:
    with pytest.raises(UserError, match="meteor-en"):
        assets.path("nothing")


def test_processes_that_pull_at_once_convert_once(toy: Asset) -> None:
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=assets.pull, args=("toy",)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 4
    assert assets.verify("toy")


def test_pip_configuration_is_read_in_pips_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX", "PIP_CERT"):
        monkeypatch.delenv(name, raising=False)
    file = tmp_path / "pip.conf"
    file.write_text(
        "[global]\nindex-url = https://a.example/simple\nextra-index-url =\n    https://b.example\n    https://c.example\n"
    )
    monkeypatch.setenv("PIP_CONFIG_FILE", str(file))
    assert index.sources().indexes == ["https://a.example/simple", "https://b.example", "https://c.example"]
    monkeypatch.setenv("PIP_INDEX_URL", "https://z.example/simple")
    assert index.sources().indexes[0] == "https://z.example/simple"
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert index.sources().indexes == []
    file.write_text("no section = 1\n")
    with pytest.raises(UserError, match=r"pip\.conf"):
        index.sources()


@pytest.mark.parametrize(("name", "seconds", "sound"), [("demo-bunny", 5, True), ("demo-bikes", 10, False)])
def test_the_demo_has_two_real_clips(name: str, seconds: int, sound: bool) -> None:
    from hoca import media

    clip = media.decode(media.Request(assets.path(name), {"first": media.Pictures(media.First(1))}, rate=16000))
    assert round(clip.duration) == seconds
    assert (clip.waveform is not None) == sound
