"""server/serve.py: `bankml serve` from the outside, with the real model: ready, stopped, or one line and exit 2."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from server.serve import ServeError, listen
from testing.gguf_writer import ModelFile

COMMAND = [sys.executable, "-m", "server.cli", "serve"]
LISTENING = re.compile(r"listening on (http://\S+|unix:\S+)")


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("LLAMA_", "OLLAMA_", "BANKML_"))}


@contextmanager
def serving(*arguments: str, closed: tuple[int, ...] = ()) -> Iterator[tuple[subprocess.Popen[str], str, list[str]]]:
    """A running `bankml serve`, without the files `closed`: the process, its address, the lines it said until then."""
    process = subprocess.Popen(
        ["sh", "-c", f'exec "$@" {" ".join(f"{number}>&-" for number in closed)}', "sh", *COMMAND, *arguments],
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    assert process.stderr is not None
    lines: list[str] = []
    try:
        for line in process.stderr:
            lines.append(line)
            if found := LISTENING.search(line):
                yield process, found[1], lines
                break
        else:
            pytest.fail("".join(lines))
    finally:
        process.kill()
        process.communicate()


def get(address: str, path: str) -> httpx.Response:
    """The answer of a server that is starting: connections are refused until it listens."""
    with httpx.Client(transport=httpx.HTTPTransport(retries=5), timeout=60) as client:
        return client.get(address + path)


def refused(*arguments: str) -> str:
    """The one line with which `bankml serve` ends."""
    done = subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, env=environment(), timeout=120, check=False
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("bankml: ")
    assert done.stderr.count("\n") == 1
    return done.stderr.removeprefix("bankml: ").rstrip("\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_it_serves_until_a_signal_and_ends_with_0(model_path: Path, number: signal.Signals) -> None:
    with serving("-m", str(model_path), "--port", "0", "-c", "512", "-t", "1") as (process, address, _):
        assert get(address, "/health").json() == {"status": "ok"}
        process.send_signal(number)
        assert process.wait(60) == 0
        assert process.stderr is not None
        assert process.stderr.read().endswith(" stopped\n")


def test_its_first_lines_say_what_is_served_how_and_where(model_path: Path) -> None:
    with serving("-m", str(model_path), "--port", "0", "-c", "512", "-t", "1") as (_, address, lines):
        texts = [line.split(" ", 2)[2].rstrip() for line in lines]
    assert texts.pop(0).startswith(f"loaded smollm2-135m-instruct.q4_1:latest from {model_path} in ")
    assert texts == [
        f"model {model_path} (98 MB) sha256 b179c9523d0e6a0f",
        "context 512, threads 1, batch 2048, micro-batch 512",
        f"listening on {address}",
    ]


def test_a_stream_under_way_ends_before_the_server_does(model_path: Path) -> None:
    body = {"prompt": "Once upon a time", "n_predict": 16, "stream": True, "ignore_eos": False, "temperature": 0}
    with (
        serving("-m", str(model_path), "--port", "0", "-c", "512") as (process, address, _),
        httpx.Client(transport=httpx.HTTPTransport(retries=5), timeout=120) as client,
        client.stream("POST", f"{address}/completion", json=body) as response,
    ):
        lines = response.iter_lines()
        first = next(lines)
        process.send_signal(signal.SIGTERM)
        rest = [line for line in lines if line]
        assert first.startswith("data: ")
        assert any('"stop":true' in line for line in rest)
        assert process.wait(60) == 0


def test_it_listens_on_a_unix_socket_and_takes_it_away(model_path: Path, tmp_path: Path) -> None:
    path = tmp_path / "bankml.sock"
    with serving("-m", str(model_path), "--host", str(path), "-c", "512", "-t", "1") as (process, address, _):
        assert address == f"unix:{path}"
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(path), retries=5), timeout=60) as client:
            assert client.get("http://localhost/health").status_code == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert not path.exists()


def test_it_listens_on_several_addresses(model_path: Path, tmp_path: Path) -> None:
    hosts = f"127.0.0.1,{tmp_path / 'b.sock'}"
    with serving("-m", str(model_path), "--host", hosts, "--port", "0", "-c", "512", "-t", "1") as (_, address, _):
        assert get(address, "/health").status_code == 200
        assert (tmp_path / "b.sock").exists()


def test_listen_and_upstream_are_two_doors_of_one_server(model_path: Path) -> None:
    both = ["--listen", "127.0.0.1:0", "--upstream", "localhost:0"]
    with serving("-m", str(model_path), *both, "-c", "512", "-t", "1") as (process, gateway, _):
        assert process.stderr is not None
        found = LISTENING.search(process.stderr.readline())
        assert found is not None
        engine = found[1]
        assert gateway != engine
        texts = [get(address, "/props").json()["model_path"] for address in (gateway, engine)]
    assert texts == [str(model_path)] * 2


def test_the_model_may_stand_without_a_flag(model_path: Path) -> None:
    with serving(str(model_path), "--native", "--port", "0", "--ctx", "512", "-t", "1") as (_, address, _):
        assert get(address, "/props").json()["default_generation_settings"]["n_ctx"] == 512
    assert refused(str(model_path), "-m", str(model_path)) == "FILE and --model are both given"


def test_the_slot_folder_is_made_at_the_start(model_path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    with serving("-m", str(model_path), "--port", "0", "-c", "512", "-t", "1", "--slot-dir", str(folder)):
        assert folder.is_dir()
    (tmp_path / "file").write_text("")
    said = refused("-m", str(model_path), "--port", "0", "--slot-dir", str(tmp_path / "file"))
    assert said == f"cannot make folder '{tmp_path / 'file'}': File exists"


def test_a_busy_port_is_one_line(model_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refused("-m", str(model_path), "--port", str(port))
    assert said == f"cannot listen on 127.0.0.1:{port}: address already in use; give another one"


def test_a_port_that_another_server_takes_meanwhile_is_one_line() -> None:
    with socket.socket() as first, socket.socket() as second:
        for sock in (first, second):  # both bound, as two servers are that start together
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(("127.0.0.1", first.getsockname()[1] if sock is second else 0))
        first.listen()
        with pytest.raises(ServeError, match="address already in use"):
            listen([second])


@pytest.mark.parametrize(
    ("host", "reason"), [("192.0.2.1", "Cannot assign requested address"), ("no.such.invalid", "no such host")]
)
def test_an_address_that_is_not_ours_is_one_line(model_path: Path, host: str, reason: str) -> None:
    assert reason in refused("-m", str(model_path), "--host", host, "--port", "0")


@pytest.mark.parametrize("size", [0, 3, 30, 5_000, 50_000_000])
def test_a_cut_model_file_is_one_line_that_names_it(model_path: Path, tmp_path: Path, size: int) -> None:
    path = tmp_path / "cut.gguf"
    with model_path.open("rb") as whole:
        path.write_bytes(whole.read(size))
    assert str(path) in refused("-m", str(path), "--port", "0")


@pytest.mark.parametrize("data", [b"hello, I am a text\n" * 100, b"PK\x03\x04" + bytes(1000), bytes(4096)])
def test_a_file_of_another_kind_is_one_line_that_names_it(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(data)
    assert str(path) in refused("-m", str(path), "--port", "0")


def test_an_architecture_that_is_not_played_is_one_line_that_names_it(model_path: Path, tmp_path: Path) -> None:
    data = bytearray(model_path.read_bytes())
    at = data.index(b"llama", data.index(b"general.architecture"))
    data[at : at + 5] = b"xlama"
    path = tmp_path / "other.gguf"
    path.write_bytes(data)
    said = refused("-m", str(path), "--port", "0")
    assert str(path) in said
    assert "xlama" in said


def test_a_file_that_is_not_played_is_not_hashed_to_its_end_first(tmp_path: Path) -> None:
    keys = {"general.architecture": "xlama", "tokenizer.ggml.model": "gpt2"}
    vocabulary = {"tokenizer.ggml.tokens": ["a"], "tokenizer.ggml.merges": ["a a"]}
    path = ModelFile(keys | vocabulary, {}).write(tmp_path / "large.gguf")
    os.truncate(path, 1 << 42)  # a hole; it would be hashed for an hour
    said = refused("-m", str(path), "--port", "0")
    assert said == f"{path}: general.architecture is 'xlama', which is not played"


def test_a_folder_and_a_missing_file_are_one_line(tmp_path: Path) -> None:
    assert refused("-m", str(tmp_path), "--port", "0") == f"cannot read model file '{tmp_path}': Is a directory"
    missing = tmp_path / "none.gguf"
    assert (
        refused("-m", str(missing), "--port", "0") == f"cannot read model file '{missing}': No such file or directory"
    )


def test_what_is_not_http_gets_an_error_object(model_path: Path) -> None:
    with serving("-m", str(model_path), "--port", "0") as (_, address, _):
        url = httpx.URL(address)
        with socket.create_connection((url.host, url.port), timeout=60) as client:
            client.sendall(b"NOT HTTP\r\n\r\n")
            head, _, body = b"".join(iter(lambda: client.recv(65536), b"")).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    error = json.loads(body)["error"]
    assert error == {"message": "Invalid HTTP request received.", "type": "invalid_request_error", "code": 400}


def test_a_server_without_standard_files_ends_cleanly(model_path: Path) -> None:
    with serving("-m", str(model_path), "--port", "0", closed=(0, 1)) as (process, address, _):
        assert get(address, "/health").status_code == 200
        process.terminate()
        assert process.wait(timeout=60) == 0


def test_a_home_nobody_has_is_one_line() -> None:
    assert "cannot read model file" in refused("-m", "~nobody-of-this-name/x.gguf")
