"""Dockerfile: no container engine runs here, so each path and command it names is checked outside one."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from server.settings import DEFAULT_PORT, FLAGS

ROOT = Path(__file__).parent.parent


def instructions() -> list[tuple[str, str]]:
    """(instruction, arguments), comments and line ends taken away."""
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1].strip()) for line in lines]


def arguments(name: str) -> list[str]:
    return [text for instruction, text in instructions() if instruction == name]


def test_every_file_that_is_copied_is_in_the_project_and_let_through() -> None:
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    copied = [source for text in arguments("COPY") if "--from" not in text for source in text.split()[:-1]]
    assert {"pyproject.toml", "CMakeLists.txt", "engine", "server"} <= set(copied)
    for source in copied:
        assert (ROOT / source).exists(), source
        assert any(Path(source).match(pattern) for pattern in allowed), source


def test_everything_the_build_needs_is_copied() -> None:
    copied = {source for text in arguments("COPY") if "--from" not in text for source in text.split()[:-1]}
    project = (ROOT / "pyproject.toml").read_text()
    needed = set(json.loads(re.search(r"license-files = (\[.*\])", project)[1]))
    needed |= set(json.loads(re.search(r"wheel.packages = (\[.*\])", project)[1]))
    needed |= {re.search(r'readme = "(.*)"', project)[1]}
    assert needed <= copied


def test_the_last_stage_takes_what_an_earlier_one_made() -> None:
    stages = re.findall(r" AS (\S+)", "\n".join(arguments("FROM")))
    for text in arguments("COPY"):
        if found := re.search(r"--from=(\S+) (\S+)", text):
            assert found[1] in stages
            assert any(f"{found[2]}/bin/pip install" in run for run in arguments("RUN"))


def test_it_runs_as_a_user_of_its_own_who_owns_the_volume() -> None:
    (user,) = arguments("USER")
    (volume,) = arguments("VOLUME")
    setup = next(run for run in arguments("RUN") if "useradd" in run)
    assert user != "root"
    assert setup.split(" && ")[0].endswith(f" {user}")
    assert f"chown {user}:{user} {volume}" in setup


def test_its_python_is_one_the_package_supports() -> None:
    low, high = re.search(r'requires-python = ">=3\.(\d+),<3\.(\d+)"', (ROOT / "pyproject.toml").read_text()).groups()
    for text in arguments("FROM"):
        assert int(low) <= int(re.match(r"python:3\.(\d+)-slim", text)[1]) < int(high)


def test_the_command_it_starts_exists() -> None:
    (entry,), (command,) = arguments("ENTRYPOINT"), arguments("CMD")
    words = json.loads(entry) + json.loads(command)
    script = Path(sys.executable).parent / words[0]
    assert subprocess.run([script, *words[1:], "--help"], stdout=subprocess.DEVNULL, check=False).returncode == 0


def test_its_variables_are_ones_the_server_reads_and_its_port_is_the_servers() -> None:
    (text,) = arguments("ENV")
    names = {name for name, _ in (word.split("=", 1) for word in text.split())}
    known = {variable for flag in FLAGS.values() for variable in flag.env} | {"PATH", "XDG_CACHE_HOME"}
    assert names <= known
    assert arguments("EXPOSE") == [str(DEFAULT_PORT)]
    assert f"127.0.0.1:{DEFAULT_PORT}/health" in arguments("HEALTHCHECK")[0]


@pytest.mark.parametrize(("status", "healthy"), [(200, True), (503, False), (None, False)])
def test_its_health_check_says_whether_the_server_is_healthy(status: int | None, healthy: bool) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status or 500)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    port = server.server_address[1]
    words = json.loads(arguments("HEALTHCHECK")[0].split("CMD ", 1)[1])
    assert words[0] == "python"
    command = [sys.executable, *(word.replace(str(DEFAULT_PORT), str(port)) for word in words[1:])]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    if status is None:
        server.server_close()
    else:
        thread.start()
    done = subprocess.run(command, capture_output=True, env={"PATH": os.environ["PATH"]}, check=False)
    if status is not None:
        server.shutdown()
        server.server_close()
        thread.join()
    assert (done.returncode == 0) is healthy
