"""The one exception for mistakes a user can make and mend."""

from __future__ import annotations


class UserError(Exception):
    """What went wrong, in which file or key, and what to do: one line, no traceback, exit code 2."""
