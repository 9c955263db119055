"""A server program under test: started on a free loopback port, waited for, asked over HTTP, stopped again."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx


class ServerError(RuntimeError):
    """The program ended, or was not healthy in time; the text has the end of its log."""


def free_port() -> int:
    """A loopback port nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until(true: Callable[[], bool]) -> None:
    """Waits for what another process does; fails after half a minute."""
    for _ in range(3000):
        if true():
            return
        time.sleep(0.01)
    raise AssertionError("it never came true")


def bankml_command() -> list[str]:
    """The program as it is installed here."""
    program = Path(sys.executable).parent / "bankml"
    return [str(program)] if program.exists() else [sys.executable, "-m", "server.cli"]


class ServerProcess:
    """A server program on a loopback port: started, waited for, asked over HTTP, stopped. A context manager.

    Args:
        command: the program and its arguments, the port among them.
        port: where it will listen.
        environment: added to the present one.
        deadline: seconds until `GET /health` must have said 200.

    Attributes:
        startup: seconds from the command to the first healthy answer.
    """

    def __init__(
        self, command: Sequence[str], port: int, *, environment: Mapping[str, str] | None = None, deadline: float = 60.0
    ) -> None:
        self.command = list(command)
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.startup = 0.0
        self._environment = {**os.environ, **(environment or {})}
        self._deadline = deadline
        self._process: subprocess.Popen[bytes] | None = None
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by __exit__
        # a connection a request: llama-server closes those it streamed on; certificates, which take long to read, have
        # no use on loopback
        limits = httpx.Limits(max_keepalive_connections=0)
        self.client = httpx.Client(base_url=self.url, timeout=600.0, trust_env=False, limits=limits, verify=False)

    def __enter__(self) -> Self:
        started = time.perf_counter()
        self._process = subprocess.Popen(
            self.command, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log, env=self._environment
        )
        try:
            self._wait_until_healthy(started)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client.close()
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._log.close()

    def kill(self) -> None:
        """End it at once, as a crash would."""
        assert self._process is not None, "the server was not started"
        self._process.kill()
        self._process.wait()

    @property
    def pid(self) -> int:
        """The server's process id."""
        assert self._process is not None, "the server was not started"
        return self._process.pid

    def _wait_until_healthy(self, started: float) -> None:
        assert self._process is not None
        while time.perf_counter() - started < self._deadline:
            if self._process.poll() is not None:
                raise ServerError(f"{self.command[0]} ended with {self._process.returncode}:\n{self.log_tail()}")
            try:
                if self._listens() and self.client.get("/health").status_code == 200:
                    self.startup = time.perf_counter() - started
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.002)
        raise ServerError(f"{self.command[0]} was not healthy after {self._deadline} s:\n{self.log_tail()}")

    def _listens(self) -> bool:
        """Whether somebody has the port: asking so costs the processor, which the start needs, next to nothing."""
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def log_tail(self, size: int = 4000) -> str:
        """The last bytes the server wrote to stdout and stderr."""
        end = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, end - size))
        return self._log.read().decode(errors="replace")

    def get(self, path: str) -> Any:
        """The parsed JSON body of a GET; raises httpx.HTTPStatusError when it is not a 200."""
        return self.client.get(path).raise_for_status().json()

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """The parsed JSON body of a POST; raises httpx.HTTPStatusError when it is not a 200."""
        return self.client.post(path, json=body).raise_for_status().json()


class BankmlServer(ServerProcess):
    """`bankml serve` on a free port, as a user starts it.

    Args:
        model: the GGUF file.
        flags: further command-line flags.
        threads: `-t`.
    """

    def __init__(self, model: Path, *flags: str, threads: int = 2) -> None:
        port = free_port()
        command = [
            *bankml_command(),
            "serve",
            "-m",
            str(model),
            "-t",
            str(threads),
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
            *flags,
        ]
        super().__init__(command, port)

    def __enter__(self) -> Self:
        # What is served here is written over and served again: its first use is nobody's record.
        self._data = tempfile.mkdtemp(prefix="bankml-data-")
        self._environment["XDG_DATA_HOME"] = self._data
        return super().__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        shutil.rmtree(self._data, ignore_errors=True)
