"""Linear layers in oneDNN: weights arranged once for this processor, and what follows a product done in its pass.

torch gives float32 products on a CPU to MKL, which uses half of the vector width on processors that are not Intel's. It
arranges weights of bfloat16 anew for each product.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


def onednn_is_available(dtype: torch.dtype) -> bool:
    """Whether this build of torch has oneDNN's products, and this processor those of the type."""
    if not (torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")):
        return False
    return dtype == torch.float32 or (dtype == torch.bfloat16 and torch.ops.mkldnn._is_mkldnn_bf16_supported())


class PackedLinear(nn.Module):
    """scale ∘ (W x + b), then GELU, or plus another tensor: on a CPU, without gradients.

    The layer's weights are multiplied by the scale as they are, and rounded to `dtype` once.
    """

    def __init__(
        self, layer: nn.Linear, dtype: torch.dtype, *, scale: Tensor | None = None, gelu: bool = False
    ) -> None:
        super().__init__()
        weight, bias = layer.weight.detach(), layer.bias.detach()
        if scale is not None:
            weight, bias = weight * scale.detach()[:, None], bias * scale.detach()
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight.to(dtype).contiguous())
        self.bias = bias.to(dtype)
        self.after = "gelu" if gelu else "none"

    def forward(self, x: Tensor, plus: Tensor | None = None) -> Tensor:
        if plus is not None:
            return torch.ops.mkldnn._linear_pointwise.binary(x, plus, self.weight, self.bias, "add")
        return torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, self.after, [], "none")
