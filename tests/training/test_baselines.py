"""Every captioner that the paper's are compared with can be trained for a reward."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hoca.models import entry, names
from hoca.training import train

from .tiny import column, tiny

SIZES = ["high_hidden", "global_hidden", "local_hidden", "decoder_hidden", "worker_hidden", "manager_hidden"]
every_baseline = pytest.mark.parametrize("model", [name for name in names() if "hoca" not in name])


def sizes(model: str) -> dict[str, Any]:
    known = entry(model).model.Config.options()
    return {"model": model} | {size: 8 for size in SIZES if size in known}


@every_baseline
def test_it_is_trained_for_a_reward(tiny_data: Path, tmp_path: Path, model: str) -> None:
    changes = {"objective": "scst-loo", "samples": 2, "epochs": 1, "learning_rate": 0.001}
    run = train(tiny(tiny_data, tmp_path / "run", **sizes(model), **changes))
    assert len(column(run, "loss")) == 1
