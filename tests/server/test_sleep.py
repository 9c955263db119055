"""--sleep-idle-seconds: an idle server unloads its model, answers what needs none, and wakes for the rest."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from server.settings import SettingsError, load_settings
from testing.server_process import BankmlServer


def wait_for_sleep(server: BankmlServer) -> None:
    while not server.get("/props")["is_sleeping"]:
        time.sleep(0.05)


def test_an_idle_server_sleeps_answers_what_needs_no_model_and_wakes_for_the_rest(model_path: Path) -> None:
    request = {"prompt": "Once upon a time", "n_predict": 4, "temperature": 0}
    watched = ("/models", "/slots", "/props", "/health")

    def said(server: BankmlServer) -> list[Any]:
        models, *others = [server.get(path) for path in watched]
        models["data"][0].pop("created")
        return [models, *others]

    flags = ("-c", "512", "--sleep-idle-seconds", "2", "--metrics", "--slots")
    with BankmlServer(model_path, *flags, threads=1) as server:
        first = server.post("/completion", request)
        awake = said(server)
        server.client.get("/metrics")  # the rates since the last reading are none from here on
        measured = server.client.get("/metrics").text
        assert not awake[2]["is_sleeping"]

        wait_for_sleep(server)
        awake[2]["is_sleeping"] = True
        assert said(server) == awake
        assert server.client.get("/metrics").text == measured
        assert server.get("/api/ps") == {"models": []}
        assert server.get("/props")["is_sleeping"]

        again = server.post("/completion", request)
        assert again["tokens_cached"] == first["tokens_cached"]
        assert (again["content"], again["timings"]["cache_n"]) == (first["content"], 0)
        assert not server.get("/props")["is_sleeping"]

        wait_for_sleep(server)
        assert server.post("/tokenize", {"content": "Once"})["tokens"]
        assert not server.get("/props")["is_sleeping"]


@pytest.mark.parametrize("text", ["0", "-2", "2147483648", "soon"])
def test_it_sleeps_after_a_second_or_more_or_never(text: str) -> None:
    with pytest.raises(SettingsError, match="--sleep-idle-seconds"):
        load_settings({"sleep_idle_seconds": text})
    assert load_settings({"sleep_idle_seconds": "-1"}).sleep_idle_seconds == -1
