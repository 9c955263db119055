"""Every tokenizer gives the tokens that the reference's library gave for the same vocabularies and texts."""

from __future__ import annotations

import json
from functools import cache, lru_cache
from typing import Any

import pytest

from engine.pretokenizers import PRE_TOKENIZERS
from engine.tokenizer import Tokenizer
from testing.oracles import tokenizer_probes
from testing.oracles.record_tokenizers import RECORD, SENTENCEPIECE, metadata_of

RECORDED = json.loads(RECORD.read_text(encoding="utf-8"))


@cache
def all_texts() -> list[str]:
    return tokenizer_probes.all_texts()


@lru_cache(maxsize=1)
def built(name: str) -> Tokenizer:
    return Tokenizer.from_gguf(metadata_of(name))


def described(tokenizer: Tokenizer) -> dict[str, Any]:
    return {
        "roles": {role: getattr(tokenizer.special, role) for role in tokenizer_probes.ROLES},
        "flags": {flag: getattr(tokenizer, flag) for flag in ("add_bos", "add_eos", "add_sep")},
        "eog": sorted(tokenizer.eog),
    }


def test_the_record_is_of_these_texts() -> None:
    assert tokenizer_probes.digest_of(text.encode() for text in all_texts()) == RECORDED["texts"]


def test_the_record_has_every_kind_of_vocabulary() -> None:
    assert set(RECORDED["names"]) == {*SENTENCEPIECE, *PRE_TOKENIZERS}


@pytest.mark.parametrize("name", RECORDED["encodings"])
def test_texts_have_the_recorded_tokens(name: str) -> None:
    assert tokenizer_probes.encoding_digests(built(name), all_texts()) == RECORDED["encodings"][name]


@pytest.mark.parametrize("name", PRE_TOKENIZERS)
def test_names_that_encode_alike_have_the_same_rules(name: str) -> None:
    def rules(name: str) -> tuple[Any, ...]:
        pre = PRE_TOKENIZERS[name]
        return pre.splitters, pre.ignore_merges, pre.add_bos

    assert rules(name) == rules(RECORDED["names"][name]["encoding"])


@pytest.mark.parametrize("name", RECORDED["names"])
def test_a_name_means_what_is_recorded(name: str) -> None:
    recorded = RECORDED["names"][name]
    tokenizer = built(name)
    assert described(tokenizer) == {key: recorded[key] for key in ("roles", "flags", "eog")}
    assert tokenizer_probes.decoding_digest(tokenizer) == recorded["decoding"]


def test_small_vocabularies_with_any_keys_answer_as_recorded() -> None:
    digests = []
    for metadata in tokenizer_probes.small_vocabularies(len(RECORDED["small"])):
        tokenizer = Tokenizer.from_gguf(metadata)
        attributes = tokenizer.attributes.tolist()
        digests.append(tokenizer_probes.small_digest(tokenizer, metadata, described(tokenizer), attributes))
    assert digests == RECORDED["small"]
