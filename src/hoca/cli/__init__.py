"""The command line: a thin layer over the library. Results go to standard output, all else to standard error."""

from __future__ import annotations

import os
import sys

import typer

from hoca.cli import assets, caption, data, features, measure, recipes, training  # noqa: F401  (each registers its commands)
from hoca.cli.common import app
from hoca.cli.help import ClickException
from hoca.errors import UserError
from hoca.files import escaped
from hoca.progress import say

INTERRUPTED = 130


def main() -> None:
    """Run a command; a mistake of the user's ends in one line and exit code 2, Ctrl-C in one line and 130."""
    code = _run()
    if code == INTERRUPTED:
        hints = {"train": "; resume it with the same command and --resume", "extract": "; the same command resumes it"}
        say("hoca: interrupted" + hints.get(sys.argv[1] if len(sys.argv) > 1 else "", ""))
    sys.exit(code)


def _run() -> int:
    try:
        code = app(prog_name="hoca", standalone_mode=False) or 0
        sys.stdout.flush()
        return code
    except (UserError, ClickException) as error:
        message = error.format_message() if hasattr(error, "format_message") else str(error)
        say("hoca: " + escaped(" ".join(message.split())))
        return 2
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except BrokenPipeError:  # `hoca … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left to flush at exit goes nowhere
        return 1
    except OSError as error:  # a folder that may not be written, a disk that is full
        say(f"hoca: {error.strerror or error}" + (f": {error.filename}" if error.filename else ""))
        return 2
