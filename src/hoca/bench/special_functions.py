# mypy: ignore-errors
"""How many special-function operations (reciprocals) a GPU does in a second: the limit of anything made of tanh."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from hoca.bench import measure

ELEMENTS = 1024  # per program
ROUNDS = 4096


@triton.jit
def _reciprocals(out, ROUNDS: tl.constexpr, ELEMENTS: tl.constexpr):
    """x → 1 / (1 + x), over and over, in registers: one special-function operation each, beside one addition."""
    x = (tl.program_id(0) % 7 + tl.arange(0, ELEMENTS)).to(tl.float32) + 1.5
    for _ in range(0, ROUNDS, 8):
        for _ in tl.static_range(8):
            x = tl.inline_asm_elementwise(
                "rcp.approx.ftz.f32 $0, $1;", "=f,f", [x + 1.0], dtype=tl.float32, is_pure=True, pack=1
            )
    tl.store(out + tl.program_id(0) * ELEMENTS + tl.arange(0, ELEMENTS), x)


def special_functions_per_second(device: torch.device) -> float:
    programs = 32 * torch.cuda.get_device_properties(device).multi_processor_count
    out = torch.empty(programs * ELEMENTS, device=device)
    timing = measure(lambda: _reciprocals[(programs,)](out, ROUNDS, ELEMENTS, num_warps=4), device)
    return programs * ELEMENTS * ROUNDS / timing.median
