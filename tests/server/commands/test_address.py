"""Where the commands look for a server: `OLLAMA_HOST` as Ollama reads it, `BANKML_*` before it."""

from __future__ import annotations

import pytest

from server.cli import main
from server.commands.address import is_here, server_url, url_of


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("", "http://127.0.0.1:11434"),
        ("1.2.3.4", "http://1.2.3.4:11434"),
        ("1.2.3.4:1234", "http://1.2.3.4:1234"),
        (":1234", "http://127.0.0.1:1234"),
        ("example.com", "http://example.com:11434"),
        ("http://example.com", "http://example.com:80"),
        ("https://example.com", "https://example.com:443"),
        ("https://example.com:5000/ollama/", "https://example.com:5000/ollama"),
        ("example.com:66000", "http://example.com:11434"),
        ("[::1]", "http://[::1]:11434"),
        ("::1", "http://[::1]:11434"),
        ("[::1]:1337", "http://[::1]:1337"),
        (" 0.0.0.0:80 ", "http://127.0.0.1:80"),
        ("'[::]:80'", "http://[::1]:80"),
    ],
)
def test_ollama_host_is_read_as_ollama_reads_it(host: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BANKML_HOST", "BANKML_PORT", "LLAMA_ARG_HOST", "LLAMA_ARG_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OLLAMA_HOST", host)
    assert server_url() == url


@pytest.mark.parametrize(
    ("variables", "url"),
    [
        ({"BANKML_HOST": "10.0.0.1"}, "http://10.0.0.1:11434"),
        ({"BANKML_HOST": "10.0.0.1:1234"}, "http://10.0.0.1:1234"),
        ({"BANKML_HOST": "https://example.org:1/y"}, "https://example.org:1/y"),
        ({"BANKML_HOST": "::", "BANKML_PORT": "80"}, "http://[::1]:80"),
        ({"BANKML_PORT": "1234"}, "https://example.com:1234/x"),
        ({"LLAMA_ARG_HOST": "example.org,127.0.0.1"}, "http://example.org:11434"),
    ],
)
def test_what_the_server_listens_on_comes_before_ollama_host(
    variables: dict[str, str], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLAMA_HOST", "https://example.com/x")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert server_url() == url


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:1234"),
        ("0.0.0.0", "http://127.0.0.1:1234"),
        ("*", "http://127.0.0.1:1234"),
        ("::", "http://[::1]:1234"),
        ("[::1]", "http://[::1]:1234"),
    ],
)
def test_an_address_that_means_every_one_is_reached_at_loopback(host: str, url: str) -> None:
    assert url_of(host, 1234) == url


@pytest.mark.parametrize(
    ("url", "here"),
    [
        ("http://127.0.0.1:11434", True),
        ("http://localhost:11434/x", True),
        ("http://[::1]:80", True),
        ("https://example.com", False),
        ("http://10.0.0.1:11434", False),
    ],
)
def test_a_loopback_address_is_this_machine(url: str, here: bool) -> None:
    assert is_here(url) is here


@pytest.mark.parametrize(
    ("variables", "url"),
    [
        ({"BANKML_HOST": "127.0.0.1:x"}, "http://127.0.0.1:x"),
        ({"BANKML_PORT": "http"}, "http://127.0.0.1:http"),
        ({"OLLAMA_HOST": "ftp://127.0.0.1:1"}, "ftp://127.0.0.1:1"),
        ({"OLLAMA_HOST": "a..b"}, "http://a..b:11434"),
        ({"OLLAMA_HOST": "a" * 64}, f"http://{'a' * 64}:11434"),
    ],
)
def test_what_is_no_address_of_a_server_is_said_in_one_line(
    variables: dict[str, str], url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("BANKML_HOST", "BANKML_PORT", "LLAMA_ARG_HOST", "LLAMA_ARG_PORT", "OLLAMA_HOST"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert main(["ps"]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"Error: {url} is no address of a server: ")
    assert error.count("\n") == 1
