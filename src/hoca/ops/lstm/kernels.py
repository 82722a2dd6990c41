"""The recurrence of an LSTM on a GPU: one kernel per time step and direction pair, forward and backward (Triton).

h_t = o ∘ tanh(c_t), c_t = f ∘ c_{t-1} + i ∘ g, with i, f, g, o from x_t W_ih' + h_{t-1} W_hh' + b. A program owns a few
hidden units of a few rows: it multiplies the rows of W_hh of all four gates with h_{t-1} and finishes those units, so a
step needs no second kernel. At steps that are not real h and c are zero, which is what packing gives (see recurrence).

Tensor cores take tiles of at least 64 lines and as few columns as one likes, so units are the lines, times the four
gates forward and times two halves of the gates backward, and rows of the batch the columns. A step starts while the one
before it runs, loads what does not depend on it, and then waits for its end, where the GPU and Triton can do that.

D directions, B rows, T steps, H hidden units; gates in the order i, f, g, o.
"""

from __future__ import annotations

import ctypes
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from hoca.ops.copies import float32_product
from hoca.ops.linear import tf32

try:
    from triton.language.extra.cuda import gdc_launch_dependents as _let_next_start
    from triton.language.extra.cuda import gdc_wait as _wait_for_last
except ImportError:  # Triton before 3.4
    _let_next_start = _wait_for_last = None


@triton.jit
def _sigmoid(x):  # type: ignore[no-untyped-def]
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit
def _tanh(x):  # type: ignore[no-untyped-def]
    return 2.0 / (1.0 + tl.exp(-2.0 * x)) - 1.0


@triton.jit
def _by_gate(a, UNITS: tl.constexpr, ROWS: tl.constexpr):  # type: ignore[no-untyped-def]
    """a: [4 · UNITS, ROWS], the gates under each other → four of [UNITS, ROWS]."""
    first, second = tl.split(a.reshape(2, 2, UNITS, ROWS).permute(2, 3, 1, 0))
    i, f = tl.split(first)
    g, o = tl.split(second)
    return i, f, g, o


@triton.jit
def _own_halves(a, UNITS: tl.constexpr, ROWS: tl.constexpr):  # type: ignore[no-untyped-def]
    """a: [2 · UNITS, 2 · ROWS], each half with each half → the sum of those that belong together, [UNITS, ROWS]."""
    first, second = tl.split(a.reshape(2, UNITS, 2, ROWS).permute(1, 3, 0, 2))
    own, _ = tl.split(first)
    _, other = tl.split(second)
    return own + other


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
    CHAINED: tl.constexpr,
):
    """(h_t, c_t) = LSTM(h_{t-1}, c_{t-1}, x_t) of some units; the second direction goes backward in time."""
    d = tl.program_id(2)
    t = tl.where(d == 0, step, T - 1 - step)
    rows = (tl.program_id(1) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    units = tl.program_id(0) * UNITS + tl.arange(0, UNITS)
    here = (units < H)[:, None] & (rows < B)[None, :]
    place = (rows * T + t) * D + d
    x = gates + place[None, :] * (4 * H) + units[:, None]
    x_i = tl.load(x, mask=here, other=0.0)
    x_f = tl.load(x + H, mask=here, other=0.0)
    x_g = tl.load(x + 2 * H, mask=here, other=0.0)
    x_o = tl.load(x + 3 * H, mask=here, other=0.0)
    if MASKED:
        counts = tl.load(real + rows * T + t, mask=rows < B, other=0).to(tl.int1)[None, :]
    if CHAINED:
        if not FIRST:
            _wait_for_last()
        _let_next_start()
    if FIRST:
        h_before, c_before, last = h0, c0, d * B + rows
    else:
        h_before, c_before, last = outputs, cells, (rows * T + tl.where(d == 0, t - 1, t + 1)) * D + d
    c = tl.load(c_before + last[None, :] * H + units[:, None], mask=here, other=0.0).to(tl.float32)
    lines = tl.arange(0, 4 * UNITS)
    lines = (lines // UNITS) * H + tl.program_id(0) * UNITS + lines % UNITS  # of all gates
    w_at = weight + (d * 4 * H + lines)[:, None] * H
    a = tl.zeros((4 * UNITS, ROWS), tl.float32)
    for first in range(0, H, K):
        k = first + tl.arange(0, K)
        w = tl.load(w_at + k[None, :], mask=(lines < 4 * H)[:, None] & (k < H)[None, :], other=0.0)
        given = (rows < B)[:, None] & (k < H)[None, :]
        h = tl.load(h_before + last[:, None] * H + k[None, :], mask=given, other=0.0)
        a = tl.dot(w, h.T, a, input_precision=PRECISION)
    i, f, g, o = _by_gate(a, UNITS, ROWS)
    i = _sigmoid(i + x_i.to(tl.float32))
    f = _sigmoid(f + x_f.to(tl.float32))
    g = _tanh(g + x_g.to(tl.float32))
    o = _sigmoid(o + x_o.to(tl.float32))
    c = f * c + i * g
    h_new = o * _tanh(c)
    if MASKED:
        c = tl.where(counts, c, 0.0)
        h_new = tl.where(counts, h_new, 0.0)
    kind = outputs.dtype.element_ty
    state = place[None, :] * H + units[:, None]
    tl.store(outputs + state, h_new.to(kind), mask=here)
    tl.store(cells + state, c, mask=here)
    tl.store(x, i.to(kind), mask=here)
    tl.store(x + H, f.to(kind), mask=here)
    tl.store(x + 2 * H, g.to(kind), mask=here)
    tl.store(x + 3 * H, o.to(kind), mask=here)


@triton.jit(do_not_specialize=["step"])
def backward_step(  # type: ignore[no-untyped-def]
    d_gates,  # [B, T, D, 4H]: of the gates' arguments
    d_cell,  # [D, B, H] float32: of c_t on entry, of c_{t-1} when done
    d_outputs,  # [B, T, D, H]
    gates,
    cells,
    weight,  # [D, H, 4H], its strides follow
    c0,
    real,
    step,
    B,
    T,
    along_units,
    along_gates,
    H: tl.constexpr,
    D: tl.constexpr,
    ROWS: tl.constexpr,
    UNITS: tl.constexpr,
    K: tl.constexpr,
    FIRST: tl.constexpr,
    LAST: tl.constexpr,
    MASKED: tl.constexpr,
    PRECISION: tl.constexpr,
    CHAINED: tl.constexpr,
):
    """dh_t = dout_t + da_{t+1} W_hh, then da_t and dc_{t-1} of some units; the steps are gone through from the last."""
    d = tl.program_id(2)
    t = tl.where(d == 0, step, T - 1 - step)
    rows = (tl.program_id(1) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    units = tl.program_id(0) * UNITS + tl.arange(0, UNITS)
    here = (units < H)[:, None] & (rows < B)[None, :]
    place = (rows * T + t) * D + d
    state = place[None, :] * H + units[:, None]
    start = (d * B + rows)[None, :] * H + units[:, None]
    dh = tl.load(d_outputs + state, mask=here, other=0.0).to(tl.float32)
    x = place[None, :] * (4 * H) + units[:, None]
    i = tl.load(gates + x, mask=here, other=0.0)
    f = tl.load(gates + x + H, mask=here, other=0.0)
    g = tl.load(gates + x + 2 * H, mask=here, other=0.0)
    o = tl.load(gates + x + 3 * H, mask=here, other=0.0)
    c = tl.load(cells + state, mask=here, other=0.0)
    if FIRST:
        c_before = tl.load(c0 + start, mask=here, other=0.0).to(tl.float32)
    else:
        before = (rows * T + tl.where(d == 0, t - 1, t + 1)) * D + d
        c_before = tl.load(cells + before[None, :] * H + units[:, None], mask=here, other=0.0)
    if MASKED:
        counts = tl.load(real + rows * T + t, mask=rows < B, other=0).to(tl.int1)[None, :]
    if CHAINED:
        if not LAST:
            _wait_for_last()
        _let_next_start()
    dc = tl.load(d_cell + start, mask=here, other=0.0)
    if not LAST:
        lines, columns = tl.arange(0, 2 * UNITS), tl.arange(0, 2 * ROWS)
        unit = tl.program_id(0) * UNITS + lines % UNITS
        row = (tl.program_id(1) * ROWS + columns % ROWS).to(tl.int64)
        w_at = weight + d * 4 * H * H + unit * along_units + (lines // UNITS) * 2 * H * along_gates
        coming = (row * T + tl.where(d == 0, t + 1, t - 1)) * D + d
        da_at = d_gates + coming * (4 * H) + (columns // ROWS) * 2 * H
        a = tl.zeros((2 * UNITS, 2 * ROWS), tl.float32)
        for first in range(0, 2 * H, K):
            k = first + tl.arange(0, K)
            inside = (unit < H)[:, None] & (k < 2 * H)[None, :]
            w = tl.load(w_at[:, None] + k[None, :] * along_gates, mask=inside, other=0.0)
            da = tl.load(da_at[:, None] + k[None, :], mask=(row < B)[:, None] & (k < 2 * H)[None, :], other=0.0)
            a = tl.dot(w, da.T, a, input_precision=PRECISION)
        dh += _own_halves(a, UNITS, ROWS)
    i = i.to(tl.float32)
    f = f.to(tl.float32)
    g = g.to(tl.float32)
    o = o.to(tl.float32)
    tanh_c = _tanh(c)
    dc += dh * o * (1 - tanh_c * tanh_c)
    if MASKED:
        dc = tl.where(counts, dc, 0.0)
        dh = tl.where(counts, dh, 0.0)
    kind = d_gates.dtype.element_ty
    tl.store(d_gates + x, (dc * g * i * (1 - i)).to(kind), mask=here)
    tl.store(d_gates + x + H, (dc * c_before * f * (1 - f)).to(kind), mask=here)
    tl.store(d_gates + x + 2 * H, (dc * i * (1 - g * g)).to(kind), mask=here)
    tl.store(d_gates + x + 3 * H, (dh * tanh_c * o * (1 - o)).to(kind), mask=here)
    tl.store(d_cell + start, dc * f, mask=here)


class FusedLSTM(torch.autograd.Function):
    """features [B, T, I], w_ih [D·4H, I], w_hh [D, 4H, H], bias [D·4H], h0, c0 [D, B, H], real [B, T] or None
    → outputs [B, T, D·H] and the last c [D, B, H].

    Gradients go to the parameters that the weights were copied from: W_ih, W_hh, b_ih and b_hh, of all directions each.
    """

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
        *parameters: Tensor,
    ) -> tuple[Tensor, Tensor]:
        (rows, steps, _), (directions, _, hidden) = features.shape, w_hh.shape
        with _lstm_precision():
            gates = torch.nn.functional.linear(features, w_ih, bias).view(rows, steps, directions, 4 * hidden)
        cells = torch.empty(rows, steps, directions, hidden, dtype=torch.float32, device=features.device)
        outputs = torch.empty(rows, steps, directions, hidden, dtype=features.dtype, device=features.device)
        h0, c0 = h0.contiguous(), c0.contiguous()
        grid, sizes = _layout(rows, hidden, directions, features, backward=False)
        mask = outputs if real is None else real
        chained = _chains(features)
        for step in range(steps):
            forward_step[grid](
                *(gates, cells, outputs, w_hh, h0, c0, mask, step, rows, steps, hidden, directions),
                **sizes,
                **_launch(chained=chained, first=step == 0),
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
        grid, sizes = _layout(rows, hidden, directions, features, backward=True)
        mask = outputs if real is None else real
        weight = w_hh.transpose(1, 2)
        if weight.dtype == torch.float32:
            weight = weight.contiguous()  # products in TF32 read both sides along what they sum over
        chained = _chains(features)
        for step in reversed(range(steps)):
            backward_step[grid](
                *(d_gates, d_cell, d_outputs, gates, cells, weight, c0, mask, step, rows, steps, *weight.stride()[1:]),
                *(hidden, directions),
                **sizes,
                **_launch(chained=chained, first=step == steps - 1),
                FIRST=step == 0,
                LAST=step == steps - 1,
                MASKED=real is not None,
                PRECISION=_dot_precision(),
            )
        flat = d_gates.view(rows * steps, directions * 4 * hidden)
        with _lstm_precision():
            d_features = (flat @ w_ih).view_as(features) if ctx.needs_input_grad[0] else None
            d_w_ih = float32_product(flat.t(), features.flatten(0, 1)).chunk(directions)
            d_w_hh = [_recurrent_gradient(d_gates, outputs, h0, d) for d in range(directions)]
            d_h0 = None
            if ctx.needs_input_grad[4]:
                d_h0 = torch.stack([d_gates[:, 0 if d == 0 else -1, d] for d in range(directions)]) @ w_hh
        d_bias = flat.sum(0, dtype=torch.float32).expand(2, -1).contiguous()  # clipping scales each of the two in place
        d_biases = d_bias.view(2 * directions, -1).unbind()
        d_c0 = d_cell.to(c0.dtype) if ctx.needs_input_grad[5] else None
        return d_features, None, None, None, d_h0, d_c0, None, *d_w_ih, *d_w_hh, *d_biases


def _recurrent_gradient(d_gates: Tensor, outputs: Tensor, h0: Tensor, d: int) -> Tensor:
    """Σ over rows and steps of da_t h_{t-1}', [4H, H]."""
    before = torch.empty_like(outputs[:, :, d], memory_format=torch.contiguous_format)  # [B, T, H]
    before[:, 0 if d == 0 else -1] = h0[d]
    before[:, slice(1, None) if d == 0 else slice(-1)] = outputs[:, slice(-1) if d == 0 else slice(1, None), d]
    return float32_product(d_gates[:, :, d].flatten(0, 1).t(), before.flatten(0, 1))


def _layout(
    rows: int, hidden: int, directions: int, features: Tensor, *, backward: bool
) -> tuple[tuple[int, ...], dict[str, int]]:
    """Small tiles where there are few rows, so that all multiprocessors share the weights."""
    few = rows <= 128
    tile = 16 if rows <= 16 else 32 if few else 64
    units = 16 if few and not backward else 32
    stages = 3 if not few else 4 if features.itemsize == 2 else 6
    loaded = 256 * (2 * units + 2 * tile if backward else 4 * units + tile)  # bytes that a stage holds
    if features.is_cuda:
        device = torch.cuda.get_device_properties(features.device)
        stages = max(1, min(stages, getattr(device, "shared_memory_per_block_optin", 1 << 16) // loaded))
    grid = triton.cdiv(hidden, units), triton.cdiv(rows, tile), directions
    sizes = {"ROWS": tile, "UNITS": units, "K": 256 // features.itemsize}
    return grid, {**sizes, "num_warps": 4 if few or backward else 8, "num_stages": stages}


def _chains(features: Tensor) -> bool:
    """Whether a step can start before the last one has ended: from Hopper on, and in graphs since CUDA 12.3."""
    if _wait_for_last is None or not features.is_cuda or torch.version.cuda is None:
        return False
    return torch.cuda.get_device_capability(features.device) >= (9, 0) and _driver() >= 12030


@cache
def _driver() -> int:
    """The CUDA that the driver knows, 12030 for 12.3; 0 where that cannot be said."""
    found = ctypes.c_int(0)
    try:
        ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(found))
    except OSError:
        return 0
    return found.value


def _launch(*, chained: bool, first: bool) -> dict[str, bool]:
    return {"CHAINED": True, "launch_pdl": not first} if chained else {"CHAINED": False}


def _dot_precision() -> str:
    """As cuDNN's LSTM, which this stands in for: TF32 for float32 unless that is switched off."""
    return "tf32" if torch.backends.cudnn.allow_tf32 else "tf32x3"


def _lstm_precision() -> AbstractContextManager[None]:
    """The LSTM's own matrix products follow cuDNN's switch for TF32 as well, not that of other products."""
    return tf32(allowed=torch.backends.cudnn.allow_tf32)
