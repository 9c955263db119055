"""server/machine.py: readings of the machine, against the sums they must keep; and how often they are taken."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from pathlib import Path

from server import machine


async def test_a_reading_is_shared_among_those_who_ask_and_kept_for_its_time() -> None:
    taken = 0

    async def read() -> int:
        nonlocal taken
        taken += 1
        await asyncio.sleep(0)
        return taken

    kept, fresh = machine.Shared(read, 3600), machine.Shared(read, 0)
    assert await asyncio.gather(*(kept.get() for _ in range(5))) == [1] * 5
    assert await kept.get() == 1
    assert await asyncio.gather(*(fresh.get() for _ in range(3))) == [2, 3, 4]


async def test_usage_has_what_clients_read() -> None:
    usage = await machine.usage()
    assert list(usage)[:10] == [
        *("source", "cores", "mem_total_bytes", "mem_available_bytes", "swap_total_bytes", "swap_free_bytes"),
        *("rss_bytes", "cpu_percent", "interval_ms", "processes"),
    ]
    assert usage["cores"] == os.cpu_count()
    assert 0 < usage["mem_available_bytes"] <= usage["mem_total_bytes"]
    assert [(process["name"], process["pid"]) for process in usage["processes"]] == [("bankml", os.getpid())]
    assert usage["processes"][0]["rss_bytes"] == usage["rss_bytes"]
    assert (usage["package_watts"], usage["gpus"], usage["gpu_limiter"]) == (None, [], None)


def test_processes_are_watched_together_and_who_does_not_live_is_left_out() -> None:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy, subprocess.Popen(["true"]) as over:
        try:
            over.wait()
            usage = asyncio.run(machine.usage([busy.pid, os.getpid(), 2**62, over.pid, 0, busy.pid], 0.1))
        finally:
            busy.kill()
    first, second = usage["processes"]
    assert (first["pid"], second["pid"], second["name"]) == (busy.pid, os.getpid(), "bankml")
    assert first["cpu_percent"] > 0
    assert usage["rss_bytes"] == first["rss_bytes"] + second["rss_bytes"]
    assert usage["cpu_percent"] == round(first["cpu_percent"] + second["cpu_percent"], 1)
    assert usage["interval_ms"] >= 100


async def test_a_working_process_is_seen_at_work() -> None:
    reading = asyncio.create_task(machine.usage())
    await asyncio.sleep(0)
    while not reading.done():
        sum(range(10_000))
        await asyncio.sleep(0)
    assert (await reading)["cpu_percent"] > 0


def test_the_disk_of_a_file(tmp_path: Path) -> None:
    disk = machine.disk_of(tmp_path / "model.gguf", 7)
    assert (disk["path"], disk["model_bytes"]) == (str(tmp_path / "model.gguf"), 7)
    assert 0 <= disk["available_bytes"] <= disk["total_bytes"]
    gone = machine.disk_of(tmp_path / "no" / "model.gguf", 7)
    assert (gone["total_bytes"], gone["available_bytes"]) == (None, None)


def test_the_report_names_neither_the_machine_nor_an_address() -> None:
    report = machine.report()
    assert set(report) == {"system", "cpu", "memory", "cgroup", "processes", "disks", "network"}
    assert set(report["system"]) == {"os", "release", "machine", "python", "uptime_s"}
    assert all(set(one) == {"name", "up", "sent_bytes", "received_bytes"} for one in report["network"])


async def test_ping() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert await machine.ping("127.0.0.1", port) is not None
    assert await machine.ping("127.0.0.1", port) is None
