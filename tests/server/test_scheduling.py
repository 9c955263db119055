"""server/scheduling.py: what the event loop's thread asks for, and who does not get it."""

from __future__ import annotations

import ctypes
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from server.scheduling import _ATTRIBUTES, _SCHED_SETATTR, SLICE_NS, ask_for_short_slices
from testing.server_process import BankmlServer


def attributes(thread: int) -> tuple[int, int, int]:
    """Policy, nice value and slice in nanoseconds of a thread; the slice is 0 where Linux has none to give."""
    found = ctypes.create_string_buffer(_ATTRIBUTES.size)
    number = _SCHED_SETATTR[os.uname().machine] + 1  # sched_getattr
    assert ctypes.CDLL(None).syscall(number, thread, found, _ATTRIBUTES.size, 0) == 0
    _, policy, _, nice, _, slice_ns, _, _ = _ATTRIBUTES.unpack(found.raw)
    return policy, nice, slice_ns


def test_a_thread_gets_short_slices_and_keeps_the_rest_and_its_children_get_none() -> None:
    def ask() -> list[tuple[int, int, int]]:
        before = attributes(0)
        assert ask_for_short_slices()
        after = attributes(0)
        with ThreadPoolExecutor(1) as child:
            return [before, after, child.submit(attributes, 0).result()]

    ours = attributes(0)
    with ThreadPoolExecutor(1) as thread:
        before, after, child = thread.submit(ask).result()
    assert after == (*before[:2], SLICE_NS if before[2] else 0)
    assert child == before
    assert attributes(0) == ours


def test_the_servers_event_loop_alone_has_short_slices(model_path: Path) -> None:
    with ThreadPoolExecutor(1) as fresh:  # a server that ran in this process may have asked for this thread
        usual = fresh.submit(attributes, 0).result()[2]
    with BankmlServer(model_path, "-c", "512") as server:
        server.post("/completion", {"prompt": "Once", "n_predict": 2})
        threads = [int(thread) for thread in os.listdir(f"/proc/{server.pid}/task")]
        slices = {thread: attributes(thread)[2] for thread in threads}
    assert slices.pop(server.pid) == (SLICE_NS if usual else 0)
    assert slices
    assert set(slices.values()) == {usual}
