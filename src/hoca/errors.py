"""Exceptions for mistakes a user can make and fix.

All are `UserError`. A program that wants to tell cases apart catches one of its kinds:

    UnknownName      a model, asset, backbone, category or recipe of that name does not exist
    UnreadableVideo  a file that cannot be opened or decoded, or costs more than its limits
    BadCheckpoint    a model that is not there, is damaged, or was not written by hoca
    BadDataset       captions or features that do not fit together or cannot be read
    MissingAsset     weights or word lists that are not here and cannot be fetched
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

LONGEST = 100  # characters of a name that others are compared with, which takes the square of it


class UserError(ValueError):
    """What went wrong, in which file or key, and what to do: one line, no traceback, exit code 2."""


class UnknownName(UserError):
    """A model, asset, backbone, category or recipe of that name does not exist; the message names the nearest."""


class UnreadableVideo(UserError):
    """A file that cannot be opened or decoded, holds nothing to caption, or costs more than its limits allow."""


class BadCheckpoint(UserError):
    """A model that is not there, is damaged, or was not written by hoca."""


class BadDataset(UserError):
    """Captions or features that do not fit together or cannot be read."""


class MissingAsset(UserError):
    """Weights or word lists that are not here and cannot be fetched."""


def nearest(name: str, known: Iterable[str]) -> str:
    """The hint that ends a message about an unknown name: the closest known one, or all of them."""
    names = list(known)
    close = difflib.get_close_matches(name[:LONGEST], names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names)}"
