"""`bankml diag`: the machine as JSON and as text, with its name and addresses only when they are asked for."""

from __future__ import annotations

import json
import os
import platform
import socket

import pytest

from server.cli import main


def test_a_report_has_the_processes_and_the_connections_that_were_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        here = f"127.0.0.1:{listener.getsockname()[1]}"
        arguments = ["--json", "--sample", "20", "--ping", here, "--ping", "127.0.0.1:1", str(os.getpid()), str(2**62)]
        assert main(["diag", *arguments]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found) == [
        *("system", "cpu", "memory", "cgroup", "processes", "disks", "network"),
        *("ping", "gpus", "energy", "sample_ms"),
    ]
    assert [(each["pid"], each["name"], each["cpu_percent"] >= 0) for each in found["processes"]] == [
        (os.getpid(), "bankml", True)
    ]
    reached, refused = found["ping"]
    times = reached["connect_ms"]
    assert (reached["address"], times["min"] <= times["avg"] <= times["max"]) == (here, True)
    assert refused == {"address": "127.0.0.1:1", "connect_ms": None, "reason": "Connection refused"}
    assert found["sample_ms"] >= 20


def test_only_a_full_report_has_the_machines_name_and_addresses(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        reports = {}
        for flags in ((), ("--full",)):
            assert main(["diag", "--json", "--sample", "1", *flags]) == 0
            reports[flags] = json.loads(capsys.readouterr().out)
    assert ("host" in reports[()]["system"], "sockets" in reports[()]) == (False, False)
    assert reports["--full",]["system"]["host"] == platform.node()
    listening = {"kind": "tcp", "local": f"127.0.0.1:{port}", "remote": None, "state": "LISTEN", "pid": os.getpid()}
    assert listening in reports["--full",]["sockets"]


def test_without_json_it_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diag", "--sample", "1", "--ping", "127.0.0.1:1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "system:"
    assert f"    pid: {os.getpid()}" in lines
    assert "    address: 127.0.0.1:1" in lines


def test_a_host_that_no_machine_can_have_is_a_reason(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diag", "--json", "--sample", "1", "--ping", "a..b:1"]) == 0
    told = {"address": "a..b:1", "connect_ms": None, "reason": "no such host"}
    assert json.loads(capsys.readouterr().out)["ping"] == [told]


def test_what_is_no_address_or_process_is_exit_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diag", "--ping", "here"]) == 1
    assert capsys.readouterr() == ("", "bankml: Invalid value for '--ping': 'here': must be HOST:PORT\n")
    assert main(["diag", "me"]) == 1
