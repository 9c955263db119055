"""What the machine and this process are doing: memory, processor time, disks. Readings only; nothing is changed.

Sizes are bytes, `cpu_percent` is 100 for one busy core, what cannot be known here is None.
"""

from __future__ import annotations

import asyncio
import os
import platform
import socket
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import psutil

T = TypeVar("T")

SAMPLE_SECONDS: Final = 0.25
"""How long the processor time is watched for one reading."""

_CGROUP: Final = Path("/sys/fs/cgroup")


class Shared(Generic[T]):
    """A reading taken at most once in `seconds`, however many ask; who asks meanwhile waits for the same one."""

    def __init__(self, read: Callable[[], Awaitable[T]], seconds: float) -> None:
        self._read = read
        self._seconds = seconds
        self._lock = asyncio.Lock()
        self._kept: tuple[float, T] | None = None

    async def get(self) -> T:
        """The newest reading."""
        async with self._lock:
            if self._kept is None or time.monotonic() - self._kept[0] >= self._seconds:
                value = await self._read()
                self._kept = (time.monotonic(), value)
            return self._kept[1]


async def usage(pids: Iterable[int] | None = None, seconds: float = SAMPLE_SECONDS) -> dict[str, Any]:
    """Memory of the machine and of processes, and the processor time that these took while they were watched.

    Args:
        pids: the processes, those that do not live are left out; None for this one.
        seconds: how long they are watched.
    """
    watched = [each for pid in _pids(pids) if (each := _Watched.of(pid))]
    started = time.monotonic()
    await asyncio.sleep(seconds)
    passed = time.monotonic() - started
    processes = [reading for each in watched if (reading := each.reading(passed))]
    return {
        "source": "psutil",
        "cores": psutil.cpu_count() or 1,
        **memory(),
        "rss_bytes": sum(reading["rss_bytes"] for reading in processes),
        "cpu_percent": round(sum(reading["cpu_percent"] for reading in processes), 1),
        "interval_ms": round(passed * 1000),
        "processes": processes,
        "package_watts": None,
        "gpus": [],
        "gpu_limiter": None,
    }


@dataclass(frozen=True, slots=True)
class _Watched:
    """A process, and the seconds of processor time it had taken when the watch began."""

    process: psutil.Process
    name: str
    before: float

    @classmethod
    def of(cls, pid: int) -> _Watched | None:
        """The process with this number; None when none lives or it may not be looked at."""
        with suppress(psutil.Error):
            process = psutil.Process(pid)
            return cls(process, _name_of(process), _seconds(process))
        return None

    def reading(self, passed: float) -> dict[str, Any] | None:
        """What it took in the seconds that passed; None when it has gone."""
        with suppress(psutil.Error):
            percent = round(100 * (_seconds(self.process) - self.before) / passed, 1)
            rss = self.process.memory_info().rss
            return {"name": self.name, "pid": self.process.pid, "rss_bytes": rss, "cpu_percent": percent}
        return None


def _seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def memory() -> dict[str, int]:
    """The machine's memory and swap."""
    whole, swap = psutil.virtual_memory(), psutil.swap_memory()
    return {
        "mem_total_bytes": whole.total,
        "mem_available_bytes": whole.available,
        "swap_total_bytes": swap.total,
        "swap_free_bytes": swap.free,
    }


def processor() -> dict[str, Any]:
    """The processor's name, its logical cores, and the frequency of each where the system tells it, in MHz."""
    frequencies: list[float] = []
    with suppress(OSError, NotImplementedError):  # a container may hide it
        frequencies = [round(core.current, 1) for core in psutil.cpu_freq(percpu=True) or []]
    return {"model": _processor_name(), "logical": psutil.cpu_count() or 1, "mhz": frequencies}


@lru_cache(maxsize=1)
def _processor_name() -> str | None:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or None


def disk_of(file: Path, size: int) -> dict[str, Any]:
    """The disk a file of `size` bytes is on, and what this process read and wrote."""
    total = available = None
    with suppress(OSError):
        space = psutil.disk_usage(str(file.parent))
        total, available = space.total, space.free
    moved = None
    with suppress(OSError, AttributeError, psutil.Error):
        moved = psutil.Process().io_counters()
    return {
        "path": str(file),
        "model_bytes": size,
        "total_bytes": total,
        "available_bytes": available,
        "read_bytes": moved and moved.read_bytes,
        "write_bytes": moved and moved.write_bytes,
    }


def swapped_bytes(pid: int | None = None) -> int | None:
    """How much of a process, this one if none is named, is in the swap."""
    with suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid or 'self'}/status").read_text().splitlines():
            if line.startswith("VmSwap:"):
                return int(line.split()[1]) * 1024
    return None


def report(pids: Iterable[int] | None = None, *, full: bool = False) -> dict[str, Any]:
    """The machine in sections. May take long: disks are asked.

    Args:
        pids: the processes to tell of, those that do not live are left out; None for this one.
        full: with the machine's name, and every socket's addresses; else neither is in it.
    """
    found: dict[str, Any] = {
        "system": {
            **({"host": platform.node()} if full else {}),
            "os": platform.system(),
            "release": platform.release(),
            "machine": platform.machine(),
            "python": platform.python_version(),
            "uptime_s": round(time.time() - psutil.boot_time()),
        },
        "cpu": {**processor(), "physical": psutil.cpu_count(logical=False), "load": list(psutil.getloadavg())},
        "memory": memory(),
        "cgroup": _cgroup(),
        "processes": [told for pid in _pids(pids) if (told := _process(pid))],
        "disks": _disks(),
        "network": _network(),
    }
    return found | ({"sockets": _sockets()} if full else {})


def _pids(given: Iterable[int] | None) -> list[int]:
    """The processes that were asked for, each once; this one when none was."""
    return [os.getpid()] if given is None else list(dict.fromkeys(given))


def _name_of(process: psutil.Process) -> str:
    return "bankml" if process.pid == os.getpid() else process.name()


def _process(pid: int) -> dict[str, Any] | None:
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        files = None
        with suppress(psutil.AccessDenied):  # another user's
            files = process.num_fds()
        return {
            "name": _name_of(process),
            "pid": pid,
            "rss_bytes": process.memory_info().rss,
            "swap_bytes": swapped_bytes(pid),
            "threads": process.num_threads(),
            "files": files,
            "cpu_s": round(_seconds(process), 2),
            "uptime_s": round(time.time() - process.create_time()),
        }
    return None


def _sockets() -> list[dict[str, Any]]:
    """Every TCP and UDP socket that may be looked at; whose it is, where that is known."""

    def text(address: Any) -> str | None:
        if not address:
            return None
        return f"[{address.ip}]:{address.port}" if ":" in address.ip else f"{address.ip}:{address.port}"

    kinds = {socket.SOCK_STREAM: "tcp", socket.SOCK_DGRAM: "udp"}
    return [
        {
            "kind": kinds.get(each.type, str(each.type)),
            "local": text(each.laddr),
            "remote": text(each.raddr),
            "state": each.status,
            "pid": each.pid,
        }
        for each in psutil.net_connections("inet")
    ]


def _cgroup() -> dict[str, Any]:
    """The limits of version 2 control groups, None where there is none."""

    def number(name: str) -> int | None:
        with suppress(OSError, ValueError):
            return int((_CGROUP / name).read_text())
        return None

    cores = None
    with suppress(OSError, ValueError):
        quota, period = (_CGROUP / "cpu.max").read_text().split()
        cores = int(quota) / int(period)
    return {"mem_max_bytes": number("memory.max"), "mem_used_bytes": number("memory.current"), "cores": cores}


def _disks() -> list[dict[str, Any]]:
    disks = []
    for part in psutil.disk_partitions(all=False):
        with suppress(OSError):
            space = psutil.disk_usage(part.mountpoint)
            free = {"total_bytes": space.total, "available_bytes": space.free}
            disks.append({"path": part.mountpoint, "type": part.fstype, **free})
    return disks


def _network() -> list[dict[str, Any]]:
    up = {name: state.isup for name, state in psutil.net_if_stats().items()}
    return [
        {"name": name, "up": up.get(name), "sent_bytes": moved.bytes_sent, "received_bytes": moved.bytes_recv}
        for name, moved in psutil.net_io_counters(pernic=True).items()
    ]


async def ping(host: str, port: int) -> float | None:
    """Milliseconds a connection to an address takes; None when there is none within a second."""
    with suppress(OSError):
        return await connect(host, port)
    return None


async def connect(host: str, port: int) -> float:
    """Milliseconds a connection to an address takes.

    Raises:
        OSError: there is none; `TimeoutError` after a second.
    """
    started = time.perf_counter()
    try:
        async with asyncio.timeout(1):
            _, writer = await asyncio.open_connection(host, port)
    except UnicodeError as error:  # what a look-up says of a name that is empty or too long in a part
        raise OSError("no such host") from error
    writer.close()
    return round(1000 * (time.perf_counter() - started), 3)
