"""What the code says to its readers, as mkdocstrings needs it: shapes in brackets, comments beside fields."""

from __future__ import annotations

import re
from typing import Any

import griffe

MARKUP = re.compile(r"(`[^`]*`)|[\[<]")
PLAIN = {"[": "\\[", "<": "&lt;"}
COMMENT = re.compile(r"  # (.+)$")


class Descriptions(griffe.Extension):
    def on_attribute(self, *, attr: griffe.Attribute, **kwargs: Any) -> None:
        """A field is described by the comment beside it, or by the text of its `option`."""
        if attr.docstring is None and attr.lineno is not None:
            line = attr.lines_collection[attr.filepath][(attr.endlineno or attr.lineno) - 1]
            found = COMMENT.search(line) or re.search(r'option\([^"]*"(.+?)"', " ".join(attr.source.split()))
            if found is not None:
                attr.docstring = griffe.Docstring(found[1], parent=attr)
                self.on_object(obj=attr)

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """`x [B, L]` is a shape and `<eos>` a word, which Markdown would take for a link and a tag."""
        if obj.docstring is not None:
            obj.docstring.value = MARKUP.sub(lambda found: found[1] or PLAIN[found[0]], obj.docstring.value)
