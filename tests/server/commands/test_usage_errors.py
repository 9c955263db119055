"""A command line that cannot be read: Ollama's words and status for Ollama's verbs, exit status 1 for ours."""

from __future__ import annotations

import pytest

from server.cli import main


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("show", "accepts 1 arg(s), received 0"),
        ("show a b", "accepts 1 arg(s), received 2"),
        ("cp -- a", "accepts 2 arg(s), received 1"),
        ("create -q f16", "accepts 1 arg(s), received 0"),
        ("rm", "requires at least 1 arg(s), only received 0"),
        ("pull a b", "accepts at most 1 arg(s), received 2"),
        ("push --insecure", "accepts 1 arg(s), received 0"),
        ("list --json", "unknown flag: --json"),
        ("show --json a", "unknown flag: --json"),
        ("show -xv a", "unknown shorthand flag: 'x' in -xv"),
        ("show -vx a", "unknown shorthand flag: 'x' in -x"),
        ("create a --file", "flag needs an argument: --file"),
        ("create a -f", "flag needs an argument: 'f' in -f"),
        ("dance", 'unknown command "dance" for "bankml"'),
        ("--json", "unknown flag: --json"),
    ],
)
def test_ollamas_verbs_say_what_ollama_says(arguments: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments.split()) == 1
    assert capsys.readouterr() == ("", f"Error: {said}\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("guard", "Missing argument 'FILE'."),
        ("verify a --json=1", "Option '--json' does not take a value."),
        ("sha256 a b", "Got unexpected extra argument (b)"),
        ("generate a --max 0", "Invalid value for '--max': 0 is not in the range x>=1."),
    ],
)
def test_our_own_verbs_refuse_no_file_by_it(arguments: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments.split()) == 1
    assert capsys.readouterr() == ("", f"bankml: {said}\n")
