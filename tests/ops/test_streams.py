from __future__ import annotations

import weakref

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks

from hoca.ops.streams import ParallelStreams, _alias, _used


def test_without_a_gpu_lanes_are_one_after_the_other() -> None:
    given = torch.randn(3, requires_grad=True)
    streams = ParallelStreams(given.device)
    with streams.next():
        result = given.exp()
    streams.join([result])
    (gradient,) = torch.autograd.grad(result.sum(), given)
    torch.testing.assert_close(gradient, given.exp())


def test_what_a_lane_saves_is_freed_without_a_backward_pass() -> None:
    with saved_tensors_hooks(_alias, _used):
        result = torch.randn(3, requires_grad=True).exp()  # saves its own output
    freed = weakref.ref(result)
    del result
    assert freed() is None


@pytest.mark.skipif(not torch.cuda.is_available(), reason="streams need a GPU")
def test_lanes_give_the_same_gradient_and_keep_no_memory() -> None:
    given = torch.randn(1 << 16, device="cuda", requires_grad=True)

    def results(times: int) -> torch.Tensor:
        for _ in range(times):
            streams = ParallelStreams(given.device)
            with streams.next():
                result = (given * 2).exp()
            streams.join([result])
            torch.cuda.synchronize()
        return result

    (gradient,) = torch.autograd.grad(results(1).sum(), given)
    torch.testing.assert_close(gradient, 2 * (given * 2).exp())
    held = results(5), torch.cuda.memory_allocated()
    more = results(20), torch.cuda.memory_allocated()
    assert more[1] - held[1] < 10 * given.nbytes
