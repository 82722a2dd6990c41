"""The files of a model: its format, its older formats, the folder of a run, and a model from its file."""

from hoca.checkpoint.file import Checkpoint, quantize_int8, read_checkpoint, write_checkpoint
from hoca.checkpoint.folder import SHIPPED, Checkpoints, locate
from hoca.checkpoint.join import join
from hoca.checkpoint.model import LoadedModel, load_model, model_facts

__all__ = [
    "SHIPPED",
    "Checkpoint",
    "Checkpoints",
    "LoadedModel",
    "join",
    "load_model",
    "locate",
    "model_facts",
    "quantize_int8",
    "read_checkpoint",
    "write_checkpoint",
]
