"""Sampling flags make of our server what they make of the reference, and those that it refuses are refused."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from registry.catalog import Catalog
from server.app import create_app
from server.cli import command, main
from server.commands.flags import read_settings
from server.serve import options_of
from server.settings import Settings
from slots.residency import Residency
from testing.oracles.flag_cases import FLAGS, REFUSED, SHOWN, model_file, requests
from testing.oracles.record_flags import RECORD

RECORDED = json.loads(RECORD.read_text("utf-8"))
STARTS: list[dict[str, Any]] = RECORDED["starts"]


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("LLAMA_", "OLLAMA_", "BANKML_"))]:
        monkeypatch.delenv(name)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Path]:
    """The models, as the recorder wrote them."""
    folder = tmp_path_factory.mktemp("flags")
    return {own: model_file(own_defaults=own).write(folder / f"{own}.gguf") for own in (False, True)}


def settings_of(arguments: list[str]) -> Settings:
    """What `bankml serve ARGUMENTS` serves with."""
    serve = command.commands["serve"]
    settings: Settings = read_settings(serve.make_context("serve", arguments).params)
    return settings


def name_of(start: dict[str, Any]) -> str:
    """A test's id."""
    return " ".join(["own" if start["own_defaults"] else "plain", *start["flags"]])


@pytest.mark.parametrize("start", STARTS, ids=name_of)
def test_flags_set_what_the_reference_says_and_does_with_them(models: dict[bool, Path], start: dict[str, Any]) -> None:
    path = models[start["own_defaults"]]
    settings = settings_of(["-m", str(path), "-t", "2", *start["flags"]])
    app = create_app(settings, Residency(Catalog.of_file(path), options_of(settings)))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        answers = [client.post("/completion", json=request).json() for request in requests(start["flags"])]
        found = {
            "props": client.get("/props").json()["default_generation_settings"],
            "answers": [{name: answer.get(name, answer) for name in SHOWN} for answer in answers],
        }
    assert json.dumps(found, indent=1) == json.dumps({name: start[name] for name in found}, indent=1)


@pytest.mark.parametrize("refused", RECORDED["refused"], ids=lambda refused: " ".join(refused["flags"]))
def test_what_the_reference_does_not_start_with_is_one_line_and_exit_2(
    refused: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused["exit"] != 0
    assert main(["serve", "-m", "/no/such/file", *refused["flags"]]) == 2
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert "/no/such/file" not in line


def test_every_command_line_is_recorded_with_these_models(models: dict[bool, Path]) -> None:
    lines = [(start["own_defaults"], tuple(start["flags"])) for start in STARTS]
    assert lines == [(own, tuple(flags)) for own in (False, True) for flags in FLAGS]
    assert [tuple(refused["flags"]) for refused in RECORDED["refused"]] == list(map(tuple, REFUSED))
    assert RECORDED["header"]["reference"]["build"] == "b11192"
    hashes = {str(own).lower(): hashlib.sha256(path.read_bytes()).hexdigest() for own, path in models.items()}
    assert RECORDED["header"]["own_defaults_sha256"] == hashes
