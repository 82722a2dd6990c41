"""The recurrence of an LSTM on a GPU: one kernel per time step and direction pair, forward and backward (Triton).

h_t = o ∘ tanh(c_t), c_t = f ∘ c_{t-1} + i ∘ g, with i, f, g, o from x_t W_ih' + h_{t-1} W_hh' + b. A program owns a few
hidden units of a few rows: it multiplies h_{t-1} with the rows of W_hh of all four gates and finishes those units, so a
step needs no second kernel. At steps that are not real h and c are zero, which is what packing gives (see recurrence).

D directions, B rows, T steps, H hidden units; gates in the order i, f, g, o.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from hoca.models.products import tf32


@triton.jit
def _sigmoid(x):  # type: ignore[no-untyped-def]
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit
def _tanh(x):  # type: ignore[no-untyped-def]
    return 2.0 / (1.0 + tl.exp(-2.0 * x)) - 1.0


@triton.jit(do_not_specialize=["step"])
def forward_step(  # type: ignore[no-untyped-def]
    gates,  # [B, T, D, 4H]: x W_ih' + b on entry, i, f, g, o of this step when done
    cells,  # [B, T, D, H] float32
    outputs,  # [B, T, D, H]
    weight,  # [D, 4H, H]
    h0,  # [D, B, H]
    c0,  # [D, B, H]
    real,  # [B, T]
    step,
    B,
    T,
    H: tl.constexpr,
    D: tl.constexpr,
    ROWS: tl.constexpr,
    UNITS: tl.constexpr,
    K: tl.constexpr,
    FIRST: tl.constexpr,
    MASKED: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """(h_t, c_t) = LSTM(h_{t-1}, c_{t-1}, x_t) of some units; the second direction goes backward in time."""
    d = tl.program_id(2)
    t = tl.where(d == 0, step, T - 1 - step)
    before = tl.where(d == 0, t - 1, t + 1)
    rows = (tl.program_id(1) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    units = tl.program_id(0) * UNITS + tl.arange(0, UNITS)
    here = (rows < B)[:, None] & (units < H)[None, :]
    i = tl.zeros((ROWS, UNITS), tl.float32)
    f = tl.zeros((ROWS, UNITS), tl.float32)
    g = tl.zeros((ROWS, UNITS), tl.float32)
    o = tl.zeros((ROWS, UNITS), tl.float32)
    last = (rows * T + before) * D + d
    start = d * B + rows
    for first in range(0, H, K):
        k = first + tl.arange(0, K)
        given = (rows < B)[:, None] & (k < H)[None, :]
        if FIRST:
            h = tl.load(h0 + start[:, None] * H + k[None, :], mask=given, other=0.0)
        else:
            h = tl.load(outputs + last[:, None] * H + k[None, :], mask=given, other=0.0)
        w = weight + (d * 4 * H + units)[None, :] * H + k[:, None]  # [K, UNITS], of the first gate
        inside = (k < H)[:, None] & (units < H)[None, :]
        i = tl.dot(h, tl.load(w, mask=inside, other=0.0), i, input_precision=PRECISION)
        f = tl.dot(h, tl.load(w + H * H, mask=inside, other=0.0), f, input_precision=PRECISION)
        g = tl.dot(h, tl.load(w + 2 * H * H, mask=inside, other=0.0), g, input_precision=PRECISION)
        o = tl.dot(h, tl.load(w + 3 * H * H, mask=inside, other=0.0), o, input_precision=PRECISION)
    place = (rows * T + t) * D + d
    x = gates + place[:, None] * (4 * H) + units[None, :]
    i = _sigmoid(i + tl.load(x, mask=here, other=0.0).to(tl.float32))
    f = _sigmoid(f + tl.load(x + H, mask=here, other=0.0).to(tl.float32))
    g = _tanh(g + tl.load(x + 2 * H, mask=here, other=0.0).to(tl.float32))
    o = _sigmoid(o + tl.load(x + 3 * H, mask=here, other=0.0).to(tl.float32))
    if FIRST:
        c = tl.load(c0 + start[:, None] * H + units[None, :], mask=here, other=0.0).to(tl.float32)
    else:
        c = tl.load(cells + last[:, None] * H + units[None, :], mask=here, other=0.0)
    c = f * c + i * g
    h_new = o * _tanh(c)
    if MASKED:
        counts = tl.load(real + rows * T + t, mask=rows < B, other=0).to(tl.int1)[:, None]
        c = tl.where(counts, c, 0.0)
        h_new = tl.where(counts, h_new, 0.0)
    kind = outputs.dtype.element_ty
    tl.store(x, i.to(kind), mask=here)
    tl.store(x + H, f.to(kind), mask=here)
    tl.store(x + 2 * H, g.to(kind), mask=here)
    tl.store(x + 3 * H, o.to(kind), mask=here)
    tl.store(cells + place[:, None] * H + units[None, :], c, mask=here)
    tl.store(outputs + place[:, None] * H + units[None, :], h_new.to(kind), mask=here)


@triton.jit(do_not_specialize=["step"])
def backward_step(  # type: ignore[no-untyped-def]
    d_gates,  # [B, T, D, 4H]: of the gates' arguments
    d_cell,  # [D, B, H] float32: of c_t on entry, of c_{t-1} when done
    d_outputs,  # [B, T, D, H]
    gates,
    cells,
    weight,
    c0,
    real,
    step,
    B,
    T,
    H: tl.constexpr,
    D: tl.constexpr,
    ROWS: tl.constexpr,
    UNITS: tl.constexpr,
    K: tl.constexpr,
    FIRST: tl.constexpr,
    LAST: tl.constexpr,
    MASKED: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """dh_t = dout_t + da_{t+1} W_hh, then da_t and dc_{t-1} of some units; the steps are gone through from the last."""
    d = tl.program_id(2)
    t = tl.where(d == 0, step, T - 1 - step)
    before = tl.where(d == 0, t - 1, t + 1)
    after = tl.where(d == 0, t + 1, t - 1)
    rows = (tl.program_id(1) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    units = tl.program_id(0) * UNITS + tl.arange(0, UNITS)
    here = (rows < B)[:, None] & (units < H)[None, :]
    place = (rows * T + t) * D + d
    dh = tl.load(d_outputs + place[:, None] * H + units[None, :], mask=here, other=0.0).to(tl.float32)
    if not LAST:
        coming = ((rows * T + after) * D + d)[:, None] * (4 * H)
        for first in range(0, 4 * H, K):
            k = first + tl.arange(0, K)
            da = tl.load(d_gates + coming + k[None, :], mask=(rows < B)[:, None] & (k < 4 * H)[None, :], other=0.0)
            inside = (k < 4 * H)[:, None] & (units < H)[None, :]
            w = tl.load(weight + (d * 4 * H + k)[:, None] * H + units[None, :], mask=inside, other=0.0)
            dh = tl.dot(da, w, dh, input_precision=PRECISION)
    x = gates + place[:, None] * (4 * H) + units[None, :]
    i = tl.load(x, mask=here, other=0.0).to(tl.float32)
    f = tl.load(x + H, mask=here, other=0.0).to(tl.float32)
    g = tl.load(x + 2 * H, mask=here, other=0.0).to(tl.float32)
    o = tl.load(x + 3 * H, mask=here, other=0.0).to(tl.float32)
    tanh_c = _tanh(tl.load(cells + place[:, None] * H + units[None, :], mask=here, other=0.0))
    start = d * B + rows
    if FIRST:
        c_before = tl.load(c0 + start[:, None] * H + units[None, :], mask=here, other=0.0).to(tl.float32)
    else:
        last = (rows * T + before) * D + d
        c_before = tl.load(cells + last[:, None] * H + units[None, :], mask=here, other=0.0)
    own = d_cell + start[:, None] * H + units[None, :]
    dc = tl.load(own, mask=here, other=0.0) + dh * o * (1 - tanh_c * tanh_c)
    if MASKED:
        counts = tl.load(real + rows * T + t, mask=rows < B, other=0).to(tl.int1)[:, None]
        dc = tl.where(counts, dc, 0.0)
        dh = tl.where(counts, dh, 0.0)
    kind = d_gates.dtype.element_ty
    da = d_gates + place[:, None] * (4 * H) + units[None, :]
    tl.store(da, (dc * g * i * (1 - i)).to(kind), mask=here)
    tl.store(da + H, (dc * c_before * f * (1 - f)).to(kind), mask=here)
    tl.store(da + 2 * H, (dc * i * (1 - g * g)).to(kind), mask=here)
    tl.store(da + 3 * H, (dh * tanh_c * o * (1 - o)).to(kind), mask=here)
    tl.store(own, dc * f, mask=here)


class FusedLSTM(torch.autograd.Function):
    """features [B, T, I], w_ih [D·4H, I], w_hh [D, 4H, H], bias [D·4H], h0, c0 [D, B, H], real [B, T] or None
    → outputs [B, T, D·H] and the last c [D, B, H]."""

    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        w_ih: Tensor,
        w_hh: Tensor,
        bias: Tensor,
        h0: Tensor,
        c0: Tensor,
        real: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        (rows, steps, _), (directions, _, hidden) = features.shape, w_hh.shape
        with _lstm_precision():
            gates = torch.nn.functional.linear(features, w_ih, bias).view(rows, steps, directions, 4 * hidden)
        cells = torch.empty(rows, steps, directions, hidden, dtype=torch.float32, device=features.device)
        outputs = torch.empty(rows, steps, directions, hidden, dtype=features.dtype, device=features.device)
        h0, c0 = h0.contiguous(), c0.contiguous()
        grid, sizes = _layout(rows, hidden, directions, features.dtype, stages=4)
        mask = outputs if real is None else real
        for step in range(steps):
            forward_step[grid](
                *(gates, cells, outputs, w_hh, h0, c0, mask, step, rows, steps, hidden, directions),
                **sizes,
                FIRST=step == 0,
                MASKED=real is not None,
                PRECISION=_dot_precision(),
            )
        ctx.save_for_backward(features, w_ih, w_hh, h0, c0, gates, cells, outputs, real)
        last = torch.stack([cells[:, -1 if d == 0 else 0, d] for d in range(directions)])
        return outputs.flatten(2), last

    @staticmethod
    def backward(ctx: Any, d_outputs: Tensor, d_last: Tensor) -> tuple[Tensor | None, ...]:
        features, w_ih, w_hh, h0, c0, gates, cells, outputs, real = ctx.saved_tensors
        rows, steps, directions, hidden = outputs.shape
        d_outputs = d_outputs.contiguous()
        d_gates = torch.empty_like(gates)
        d_cell = d_last.to(torch.float32, copy=True).contiguous()
        grid, sizes = _layout(rows, hidden, directions, features.dtype, stages=5)
        mask = outputs if real is None else real
        for step in reversed(range(steps)):
            backward_step[grid](
                *(d_gates, d_cell, d_outputs, gates, cells, w_hh, c0, mask, step, rows, steps, hidden, directions),
                **sizes,
                FIRST=step == 0,
                LAST=step == steps - 1,
                MASKED=real is not None,
                PRECISION=_dot_precision(),
            )
        flat = d_gates.view(rows * steps, directions * 4 * hidden)
        with _lstm_precision():
            d_features = (flat @ w_ih).view_as(features) if ctx.needs_input_grad[0] else None
            d_w_ih = flat.t() @ features.flatten(0, 1)
            d_w_hh = torch.stack([_recurrent_gradient(d_gates, outputs, h0, d) for d in range(directions)])
            first = torch.stack([d_gates[:, 0 if d == 0 else -1, d] for d in range(directions)])  # [D, B, 4H]
            d_h0 = first @ w_hh if ctx.needs_input_grad[4] else None
        d_bias = flat.sum(0, dtype=torch.float32).to(flat.dtype)
        return d_features, d_w_ih, d_w_hh, d_bias, d_h0, d_cell.to(c0.dtype), None


def _recurrent_gradient(d_gates: Tensor, outputs: Tensor, h0: Tensor, d: int) -> Tensor:
    """Σ over rows and steps of da_t h_{t-1}', [4H, H]."""
    if d == 0:
        before = torch.cat([h0[d][:, None], outputs[:, :-1, d]], dim=1)
    else:
        before = torch.cat([outputs[:, 1:, d], h0[d][:, None]], dim=1)
    return d_gates[:, :, d].flatten(0, 1).t() @ before.flatten(0, 1)


def _layout(
    rows: int, hidden: int, directions: int, dtype: torch.dtype, *, stages: int
) -> tuple[tuple[int, ...], dict[str, int]]:
    """Few units a program where there are few rows, so that all multiprocessors share the weights.

    There a step mostly waits for them: two warps that load further ahead, by `stages`, wait less than four.
    """
    few = rows <= 32
    tile, units, warps = (16 if rows <= 16 else 32, 16, 2) if few else (64, 32, 4)
    k = 128 if few and dtype.itemsize == 2 else 64
    grid = triton.cdiv(hidden, units), triton.cdiv(rows, tile), directions
    return grid, {"ROWS": tile, "UNITS": units, "K": k, "num_warps": warps, "num_stages": stages if few else 3}


def _dot_precision() -> str:
    """As cuDNN's LSTM, which this stands in for: TF32 for float32 unless that is switched off."""
    return "tf32" if torch.backends.cudnn.allow_tf32 else "tf32x3"


def _lstm_precision() -> AbstractContextManager[None]:
    """The LSTM's own matrix products follow cuDNN's switch for TF32 as well, not that of other products."""
    return tf32(allowed=torch.backends.cudnn.allow_tf32)
