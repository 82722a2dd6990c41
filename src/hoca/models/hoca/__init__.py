"""Low-Rank HOCA (Jin et al., EMNLP 2019), equation by equation."""

from hoca.models.hoca.captioner import Captioner
from hoca.models.hoca.config import HocaConfig

__all__ = ["Captioner", "HocaConfig"]
