from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from hoca.garbage import no_garbage_collection


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    gc.enable()


def test_python_looks_for_garbage_again_afterwards_also_after_an_error() -> None:
    with suppress(KeyError), no_garbage_collection():
        assert not gc.isenabled()
        raise KeyError
    assert gc.isenabled()


def test_within_another_one_it_changes_nothing() -> None:
    with no_garbage_collection():
        with no_garbage_collection():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_thread_that_is_done_leaves_it_off_for_another() -> None:
    inside, leave = threading.Event(), threading.Event()

    def first() -> None:
        with no_garbage_collection():
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=first)
    thread.start()
    assert inside.wait(10)
    with no_garbage_collection():
        leave.set()
        thread.join()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_where_somebody_has_turned_it_off_it_stays_off() -> None:
    gc.disable()
    with no_garbage_collection():
        pass
    assert not gc.isenabled()
