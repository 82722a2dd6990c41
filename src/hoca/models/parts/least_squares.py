"""What reward is to be expected of a state, fitted beside the optimiser that trains the rest."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Baseline(nn.Module):
    """What is to be expected of a state: linear least squares over the states seen so far, the older the less."""

    moments: Tensor  # [H + 1, H + 1]
    products: Tensor  # [H + 1]
    weight: Tensor  # [H + 1]

    def __init__(self, hidden: int, memory: float = 0.99, ridge: float = 1.0) -> None:
        super().__init__()
        self.memory, self.ridge = memory, ridge
        self.register_buffer("moments", torch.zeros(hidden + 1, hidden + 1))
        self.register_buffer("products", torch.zeros(hidden + 1))
        self.register_buffer("weight", torch.zeros(hidden + 1))

    def forward(self, states: Tensor) -> Tensor:
        """[..., H] → [...]."""
        return (self._with_one(states) * self.weight).sum(-1)

    @torch.no_grad()
    def fit(self, states: Tensor, returns: Tensor, real: Tensor) -> None:
        """states [..., H], returns and real [...]."""
        with torch.autocast(states.device.type, enabled=False):
            x = (self._with_one(states) * real[..., None]).flatten(0, -2)  # [N, H + 1]
            y = (returns * real).flatten().to(x.dtype)
            self.moments.mul_(self.memory).add_(x.t() @ x)
            self.products.mul_(self.memory).add_(x.t() @ y)
            eye = torch.eye(len(self.moments), dtype=x.dtype, device=x.device)
            self.weight.copy_(torch.linalg.solve(self.moments + self.ridge * eye, self.products))

    def _with_one(self, states: Tensor) -> Tensor:
        return F.pad(states.detach().to(self.weight.dtype), (0, 1), value=1.0)
