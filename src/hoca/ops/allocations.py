"""What a computation allocates: every tensor made in forward and backward, seen as it is made."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class AllocationWatch(TorchDispatchMode):
    """A context manager that measures what is allocated within it, on any device (`meta` too, where it costs nothing).

    `largest` is the size in elements of the largest tensor made, `largest_made_by` the operator and shape of it;
    `peak` is the most bytes that were alive at once of all that was made within the block. Views are not counted
    again, and what a kernel takes and gives back by itself is not seen.
    """

    def __init__(self) -> None:
        super().__init__()
        self.largest = 0
        self.largest_made_by = ""
        self.peak = 0
        self._alive = 0
        self._storages: dict[int, weakref.ref[torch.UntypedStorage]] = {}

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = {id(tensor.untyped_storage()) for tensor in _tensors((args, kwargs))}
        made = func(*args, **(kwargs or {}))
        for tensor in _tensors(made):
            storage = tensor.untyped_storage()
            if id(storage) not in given and id(storage) not in self._storages:
                self._count(storage, tensor, str(func))
        return made

    def _count(self, storage: torch.UntypedStorage, tensor: torch.Tensor, maker: str) -> None:
        identity, size = id(storage), storage.nbytes()

        def forget(_: object) -> None:
            self._alive -= size
            del self._storages[identity]

        self._storages[identity] = weakref.ref(storage, forget)
        self._alive += size
        self.peak = max(self.peak, self._alive)
        elements = size // tensor.element_size()
        if elements > self.largest:
            self.largest, self.largest_made_by = elements, f"{maker} {list(tensor.shape)}"


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]
