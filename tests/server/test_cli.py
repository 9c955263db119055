"""server/cli.py: llama-server's flag names; one line on stderr and exit 2 for whatever cannot be used."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from importlib.metadata import version
from typing import Any

import pytest

from server.cli import command, main
from server.commands.flags import FlagCommand, read_settings
from server.flags import IGNORED, REFUSED
from server.settings import FLAGS, Settings


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("LLAMA_", "OLLAMA_", "BANKML_"))]:
        monkeypatch.delenv(name)


def settings_of(*arguments: str) -> Settings:
    """What `bankml serve ARGUMENTS` would serve with."""
    found: list[Settings] = []

    def take(**given: Any) -> None:
        found.append(read_settings(given))

    serve = command.commands["serve"]
    assert isinstance(serve, FlagCommand)
    context = {"token_normalize_func": command.context_settings["token_normalize_func"]}
    FlagCommand("serve", callback=take, context_settings=context).main(list(arguments), standalone_mode=False)
    return found[0]


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line that this command line is refused with."""
    assert main(list(arguments)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("bankml: ")
    assert err.count("\n") == 1
    return err.removeprefix("bankml: ").rstrip("\n")


@pytest.mark.parametrize(
    ("arguments", "field", "value"),
    [
        ("-c 1024", "n_ctx", 1024),
        ("--ctx-size 1024", "n_ctx", 1024),
        ("--ctx_size 1024", "n_ctx", 1024),
        ("-t 3", "n_threads", 3),
        ("-b 256", "n_batch", 256),
        ("-ub 128", "n_ubatch", 128),
        ("-n -1", "n_predict", -1),
        ("-n 5", "n_predict", 5),
        ("--predict 5", "n_predict", 5),
        ("-ctk q8_0", "cache_type_k", "q8_0"),
        ("--cache-type-v q8_0", "cache_type_v", "q8_0"),
        ("-cram 100", "cache_ram", 100),
        ("--host 0.0.0.0", "host", "0.0.0.0"),
        ("--port 0", "port", 0),
        ("-a one,two", "alias", ("one", "two")),
        ("--api-key -odd", "api_keys", ("-odd",)),
        ("-to 60", "timeout", 60),
        ("--no-slots", "slots", False),
        ("--metrics", "metrics", True),
        ("--no-cache-prompt", "cache_prompt", False),
        ("--keep-alive 10m", "keep_alive", 600.0),
        ("--temp 0", "temperature", 0.0),
        ("-s 42", "seed", 42),
        ("--top-k 0", "top_k", 0),
        ("--repeat-penalty 1.25", "repeat_penalty", 1.25),
        ("--samplers typ;nucleus", "samplers", ("typ_p", "top_p")),
        ("--sampler-seq ka", "sampler_sequence", ("top_k", "adaptive_p")),
        ("-l 5+1 --logit-bias 6-inf", "logit_bias", ((5, 1.0), (6, -math.inf))),
        ("--dry-sequence-breaker a --dry-sequence-breaker b", "dry_sequence_breakers", ("a", "b")),
        ("--mirostat-ent 3 --mirostat-ent 4", "mirostat_tau", 4.0),
        ("--no-escape", "escape", False),
        ("-e", "escape", True),
        ("--ignore-eos", "ignore_eos", True),
    ],
)
def test_llama_servers_flags_set_the_settings(arguments: str, field: str, value: object) -> None:
    assert getattr(settings_of(*arguments.split()), field) == value


def test_a_flag_not_given_leaves_the_environment_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLAMA_ARG_ENDPOINT_SLOTS", "off")
    monkeypatch.setenv("LLAMA_ARG_ENDPOINT_METRICS", "on")
    assert (settings_of().slots, settings_of().metrics) == (False, True)
    assert settings_of("--slots").slots is True


def test_a_whole_command_line_of_llama_server_is_taken() -> None:
    line = "-m m.gguf --host 127.0.0.1 --port 8081 -t 2 -c 4096 -np 1 --jinja --reasoning off --no-webui -ngl 99 -fa on"
    line += " --no-mmap --mlock --numa distribute --prio 2 --poll 50 -tb 2 --threads-http 4 -cb --log-disable -lv 2"
    settings = settings_of(*line.split())
    assert (str(settings.model), settings.port, settings.n_ctx) == ("m.gguf", 8081, 4096)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ("serve --foo", "No such option '--foo'. (Did you mean one of: '--fit', '--fork', '--tools'?)"),
        ("serve -zz", "No such option '-zz'."),
        ("serve -c", "Option '-c' requires an argument."),
        ("serve -c x", "--ctx-size 'x': must be a valid integer, unable to parse string as an integer"),
        ("serve -np 4", "--parallel 4 is refused: there is one slot; requests wait their turn"),
        ("serve -ctk q4_0", "--cache-type-k 'q4_0': must be 'f16' or 'q8_0'"),
        ("serve a.gguf b.gguf", "Got unexpected extra argument (b.gguf)"),
        ("serve -m /no/file", "cannot read model file '/no/file': No such file or directory"),
        ("serve --offline", None),
        ("pull --offline", None),
        ("pull mario --offline", "--offline forbids fetching 'mario'"),
        ("run --port x", "--port 'x': must be a valid integer, unable to parse string as an integer"),
    ],
)
def test_what_cannot_be_used_is_one_line_and_exit_2(
    arguments: str, line: str | None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("BANKML_PORT", "0")
    said = refused(capsys, *arguments.split())
    assert said == line or (line is None and "--offline forbids fetching it" in said)


def test_a_variable_that_cannot_be_used_is_one_line_and_exit_2(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLAMA_ARG_FLASH_ATTN", "off")
    assert refused(capsys, "serve") == "LLAMA_ARG_FLASH_ATTN=off is refused: only flash attention is built"


def test_help_names_every_setting_and_every_ignored_and_refused_flag(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--help"]) == 0
    words = set(capsys.readouterr().out.replace(",", " ").split())
    missing = {name for flag in FLAGS.values() for name in flag.names + flag.off} - words
    missing |= {name for flag in IGNORED + REFUSED for name in flag.names} - words
    assert missing == set()


def test_the_help_of_run_says_who_serves(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--help"]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "with -m or flags for the context or sampling, serves the model itself" in words


@pytest.mark.parametrize("arguments", [["version"], ["--version"], ["-V"], ["-v"], ["serve", "--version"]])
def test_the_version_is_the_distributions(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 0
    assert capsys.readouterr().out == f"bankml {version('bankml')}\n"


@pytest.mark.parametrize("verb", [[], ["list"], ["ls"]])
def test_help_says_what_the_flag_says(verb: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*verb, "--help"]) == 0
    said = capsys.readouterr().out
    assert main(["help", *verb]) == 0
    assert capsys.readouterr().out == said


def test_the_help_of_no_command_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "nosuch"]) == 1
    assert capsys.readouterr().err == 'Error: unknown help topic "nosuch"\n'


def test_without_a_command_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "Commands:" in capsys.readouterr().out


def test_pull_prints_the_path(model_path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pull"]) == 0
    assert capsys.readouterr().out == f"{model_path}\n"


def test_help_imports_nothing_slow() -> None:
    code = (
        "import sys; from server.cli import main; main(['--help']); "
        "sys.exit(bool({'numpy', 'pydantic', 'starlette', 'httpx', 'uvicorn'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=False).returncode == 0


def test_every_command_has_help_and_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert all(other.help for other in command.commands.values())
    assert main(["--help"]) == 0
    listed = re.findall(r"^  ([a-z0-9-]+) ", capsys.readouterr().out.partition("Commands:")[2], re.MULTILINE)
    assert listed == list(command.commands)
    assert {"serve", "run", "list", "ps", "show", "cp", "rm", "stop", "pull"} <= set(listed)


@pytest.mark.parametrize("arguments", [[], ["serve"], ["run"], ["pin"]])
def test_help_has_no_text_that_is_cut_off_and_no_default_that_is_empty(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, "--help"]) == 0
    text = capsys.readouterr().out
    assert "..." not in text.replace("]...", "")
    assert not re.search(r"\(default:\s*(\{\})?\s*\)", text)
    assert not re.search(r"^ +\[[A-Z]+\](\.\.\.)?$", text, re.MULTILINE)  # an argument that says nothing of itself


def test_output_that_cannot_be_written_is_one_line() -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "server.cli", "serve", "--help"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "bankml: [Errno 28] No space left on device\n"
