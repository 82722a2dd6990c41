"""The one exception for mistakes a user can make and fix."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

LONGEST = 100  # characters of a name that others are compared with, which takes the square of it


class UserError(ValueError):
    """What went wrong, in which file or key, and what to do: one line, no traceback, exit code 2."""


def nearest(name: str, known: Iterable[str]) -> str:
    """The hint that ends a message about an unknown name: the closest known one, or all of them."""
    names = list(known)
    close = difflib.get_close_matches(name[:LONGEST], names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names)}"
