"""How features are made, as a plain dict: it goes into feature files and checkpoints, and makes them again."""

from __future__ import annotations

from hoca.features.store import Specification


def light(image: int = 20, motion: int = 20, audio: int = 16) -> Specification:
    """The built-in features without weights, with so many steps each; 0 leaves a modality out."""
    steps = {"image": image, "motion": motion, "audio": audio}
    return {
        name: {"backbone": f"light-{name}", "weights": None, "sampling": "even", "steps": count}
        for name, count in steps.items()
        if count
    }
