"""The optimizer that a recipe names, as torch has it: on a GPU in the form that a captured step can run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from hoca.models import CaptionModel
from hoca.training.recipe import TrainSection

Make = Callable[..., torch.optim.Optimizer]
# By name: how it is made, and what else a GPU needs. AdaDelta has no fused kernel, and its loop over single weights
# would read the rate on the host.
OPTIMIZERS: Mapping[str, tuple[Make, Mapping[str, Any]]] = {
    "adamw": (torch.optim.AdamW, {"fused": True}),
    "adam": (torch.optim.Adam, {"fused": True}),
    "amsgrad": (partial(torch.optim.Adam, amsgrad=True), {"fused": True}),
    "adadelta": (torch.optim.Adadelta, {"foreach": True}),
}


def build_optimizer(settings: TrainSection, model: CaptionModel) -> torch.optim.Optimizer:
    """Of the weights that are trained."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    device, rate, decay = parameters[0].device, settings.learning_rate, settings.weight_decay
    make, on_gpu = OPTIMIZERS[settings.optimizer]
    if device.type != "cuda":
        return make(parameters, lr=rate, weight_decay=decay)
    on_device = torch.tensor(rate, device=device)  # a captured step reads it there
    return make(parameters, lr=on_device, weight_decay=decay, capturable=True, **on_gpu)


def kept_of_a_weight(optimizer: torch.optim.Optimizer) -> tuple[str, ...]:
    """The names of what the optimizer keeps of each weight, in the weight's shape; `step` counts its steps besides."""
    if isinstance(optimizer, torch.optim.Adadelta):
        return "square_avg", "acc_delta"
    return "exp_avg", "exp_avg_sq", *(["max_exp_avg_sq"] if optimizer.defaults["amsgrad"] else [])


def begin_optimizer(optimizer: torch.optim.Optimizer) -> None:
    """Moments for all weights now: begun within a graph, those of a modality met late would begin at each replay."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            state = optimizer.state[parameter]
            if not state:
                device = parameter.device if group["capturable"] else "cpu"
                state["step"] = torch.zeros((), dtype=torch.float32, device=device)
                state |= {name: torch.zeros_like(parameter) for name in kept_of_a_weight(optimizer)}


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """In place where the rate is a tensor, which a graph reads at its address."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate
