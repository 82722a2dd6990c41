"""Run the page: on this machine alone unless told otherwise, with limits, and without a trace when it ends."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hoca import media
from hoca.errors import UserError
from hoca.progress import say

MEGABYTE = 10**6
UPLOADS = "uploads"
PREFIX = "hoca-serve-"  # of the folder that a server works in
LOCK = "lock"  # a file in it, locked as long as the server lives
LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class ServeSettings:
    models: tuple[Path | str, ...] = ("default",)  # the first one is chosen at the start
    host: str = "127.0.0.1"  # this machine alone
    port: int = 7860  # 0: any that is free
    megabytes: int = 100  # of an upload
    seconds: float = 120  # that an upload may play
    total_megabytes: int = 1000  # of all uploads together
    allow_origins: tuple[str, ...] = ()  # other sites whose pages may post here: https://example.org
    waiting: int = 64  # requests that wait in line; more are told to come back
    keep: float = 600  # seconds that an upload stays for the page that shows it
    device: str = "auto"  # where the models run

    def __post_init__(self) -> None:
        if self.total_megabytes <= self.megabytes:
            raise UserError(
                f"uploads of {self.megabytes} MB do not fit into {self.total_megabytes} MB: give more --total-megabytes"
            )
        for origin in self.allow_origins:
            parts = urlsplit(origin)
            if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/"):
                raise UserError(f"--allow-origin {origin} is no address of a site: give one like https://example.org")

    def hosts(self) -> list[str]:
        """Names that the server answers by. On this machine alone these are few, or any site could bind its own name
        to this address and have a visitor's browser ask for it."""
        if self.host not in LOOPBACK:
            return ["*"]
        return [_bracketed(name) for name in LOOPBACK] + [
            urlsplit(origin).hostname or "" for origin in self.allow_origins
        ]

    def limits(self) -> media.DecodeLimits:
        return media.DecodeLimits(
            bytes=self.megabytes * MEGABYTE,
            seconds=self.seconds,
            decode_seconds=60,
            pixels=4096 * 2304,
            frames=int(240 * self.seconds) + 1,
            memory=2 * 1024**3,
        )


def serve(settings: ServeSettings) -> None:
    """Show the page until Ctrl-C or a signal to end."""
    with running(settings) as address:
        say(f"hoca is at {address}; Ctrl-C ends it")
        ended = threading.Event()
        before = signal.signal(signal.SIGTERM, lambda *_: ended.set())
        try:
            while not ended.wait(1.0):
                pass
        except KeyboardInterrupt:
            pass
        finally:
            signal.signal(signal.SIGTERM, before)


@contextmanager
def running(settings: ServeSettings) -> Iterator[str]:
    """The page, running in threads of this process; yields its address.

    It works in a temporary folder, which is the working directory meanwhile: so the names that Gradio gives to uploads
    are relative, and no path of this machine leaves it.
    """
    models = [_absolute(model) for model in settings.models]
    port = _port(settings.host, settings.port)
    with _working_folder() as folder, _inside(folder):
        gradio = _gradio()
        from starlette.middleware import Middleware
        from starlette.middleware.trustedhost import TrustedHostMiddleware

        from hoca.web.examples import examples
        from hoca.web.guard import Guard, answering
        from hoca.web.page import build
        from hoca.web.service import Service
        from hoca.web.uploads import Uploads

        origins = [origin.rstrip("/").lower() for origin in settings.allow_origins]
        largest, quota = settings.megabytes * MEGABYTE, settings.total_megabytes * MEGABYTE
        with (
            Service(models, settings.limits(), device=settings.device) as service,
            Uploads(folder / UPLOADS, settings.keep, quota) as uploads,
        ):
            checks = [
                Middleware(TrustedHostMiddleware, allowed_hosts=settings.hosts(), www_redirect=False),
                Middleware(Guard, uploads=uploads, largest=largest, origins=origins),
            ]
            page = build(service, uploads, examples(Path("examples")))
            page.queue(max_size=settings.waiting)
            page.launch(
                server_name=settings.host,
                server_port=port,
                max_file_size=largest,
                app_kwargs={"middleware": checks, "lifespan": answering(origins)},
                theme=_theme(gradio),
                css=_template("page.css"),
                head=f"<script>{_template('page.js')}</script>",
                share=False,
                show_error=False,  # what is no message of ours may name a folder
                quiet=True,
                prevent_thread_lock=True,
                ssr_mode=False,
                footer_links=[],
                run_history=False,
                enable_monitoring=False,
            )
            try:
                yield f"http://{_bracketed(settings.host)}:{port}"
            finally:
                page.close(verbose=False)


def _bracketed(host: str) -> str:
    """As it stands in an address."""
    return f"[{host}]" if ":" in host else host


def _gradio() -> Any:
    try:
        import gradio
    except ImportError:
        raise UserError("`hoca serve` needs Gradio: pip install 'hoca[web]'") from None
    return gradio


def _template(name: str) -> str:
    return (files("hoca.web") / "template" / name).read_text(encoding="utf-8")


def _theme(gradio: Any) -> Any:
    """Fonts of the visitor's own machine: others would be fetched from elsewhere."""
    return gradio.themes.Soft(
        **{"primary_hue": "orange", "neutral_hue": "stone", "radius_size": "lg"},
        font=["system-ui", "sans-serif"],
        font_mono=["ui-monospace", "monospace"],
    )


def _absolute(model: Path | str) -> Path | str:
    """A path stays right when the working directory changes; a name that is no path is left alone."""
    return Path(model).resolve() if Path(model).exists() else model


def _port(host: str, port: int) -> int:
    """The port if it can be listened on, any free one for 0: told before models are loaded."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            reason = error.strerror or error
            raise UserError(f"cannot listen on {host}:{port} ({reason}): give another --port or --host") from None
        return int(probe.getsockname()[1])


@contextmanager
def _working_folder() -> Iterator[Path]:
    """A temporary folder that is removed at the end, or at the next start if this process is killed."""
    _remove_abandoned(Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with open(folder / "starting", "wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            (folder / "starting").rename(folder / LOCK)  # by this name it is never unlocked while we live
            yield folder


def _remove_abandoned(place: Path) -> None:
    """Remove the folders of servers of this user that live no more."""
    for folder in place.glob(PREFIX + "*"):
        with suppress(OSError):  # another user's, gone, or locked: its server lives
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            with open(folder / LOCK, "rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _inside(folder: Path) -> Iterator[None]:
    """Work in this folder, and have Gradio put uploads there and send nothing anywhere."""
    told = {"GRADIO_ANALYTICS_ENABLED": "False", "HF_HUB_OFFLINE": "1", "GRADIO_TEMP_DIR": UPLOADS}
    before, place = dict(os.environ), Path.cwd()
    os.environ.update(told)
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(place)
        for name in told:
            os.environ.pop(name)
        os.environ.update({name: before[name] for name in told if name in before})
