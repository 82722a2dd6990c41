"""Any vision, video or audio model of Hugging Face's transformers, from a local folder."""

from __future__ import annotations

from hoca.errors import UserError
from hoca.features.backbones.kinds import Backbone


def from_folder(name: str) -> Backbone:
    """The backbone `hf:FOLDER`."""
    raise UserError(f"{name}: not built yet")
