"""The receipt's fields, their order, and what is hashed."""

from __future__ import annotations

import hashlib
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from engine.model import ModelOptions
from registry.catalog import Entry
from registry.pins import FileIdentity
from server.receipts import BUILD, VERSION, Receipt

ENTRY = Entry("m", (), Path("m.gguf"), 1, "ab" * 32, datetime.now(UTC), FileIdentity(1, 2, 3, 4))
FIELDS = ["bankml", "engine", "model_sha256", "guard", "prompt_tokens", "completion_tokens", "ttft_ms", "wall_ms"]
FIELDS += ["response_sha256", "request_sha256", "signed", "ignored", "warnings", "settings"]


def receipt(body: bytes = b"{}", ignored: tuple[str, ...] = (), **options: Any) -> Receipt:
    return Receipt(ENTRY, body, ModelOptions(n_threads=3, **options), time.perf_counter_ns(), ignored)


def test_the_documented_fields_come_first_in_their_order() -> None:
    assert list(receipt().finish(1, 2)) == FIELDS


def test_it_says_who_answered_and_with_what_settings() -> None:
    found = receipt(ignored=("user",)).finish(7, 2)
    assert (found["bankml"], found["engine"], found["guard"], found["signed"]) == (VERSION, "native", "play", False)
    assert (found["model_sha256"], found["prompt_tokens"], found["completion_tokens"]) == ("ab" * 32, 7, 2)
    assert found["ignored"] == ["user"]
    settings = {"threads": 3, "batch": 2048, "ubatch": 512, "cache_type_k": "f16", "cache_type_v": "f16"}
    assert found["settings"] == {**settings, "build": BUILD}


def test_it_names_the_types_of_the_cache() -> None:
    settings = receipt(cache_type_k="q8_0").finish(0, 0)["settings"]
    assert (settings["cache_type_k"], settings["cache_type_v"]) == ("q8_0", "f16")


def test_the_request_is_hashed_as_it_came() -> None:
    assert receipt(b'{"a": 1}').finish(0, 0)["request_sha256"] == hashlib.sha256(b'{"a": 1}').hexdigest()


def test_the_answer_is_hashed_over_all_its_pieces_a_lone_surrogate_as_u_fffd() -> None:
    found = receipt()
    for piece in ("Hé", "llo ", "🦙", "\ud83d"):
        found.text(piece)
    assert found.finish(0, 0)["response_sha256"] == hashlib.sha256("Héllo 🦙\ufffd".encode()).hexdigest()


def test_the_time_to_the_first_token_is_null_when_there_was_none() -> None:
    assert receipt().finish(0, 0)["ttft_ms"] is None


def test_the_time_to_the_first_token_is_taken_once() -> None:
    found = receipt()
    found.token()
    first = found.finish(0, 0)["ttft_ms"]
    found.token()
    last = found.finish(0, 0)
    assert last["ttft_ms"] == first
    assert first <= last["wall_ms"]
