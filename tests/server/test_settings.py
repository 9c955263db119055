"""server/settings.py: flag beats environment beats default, each read as llama-server or Ollama reads it."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import pytest

from engine.sampling import DEFAULT_SAMPLERS, RANDOM_SEED, SAMPLER_LETTERS, f32
from server.host_variables import ollama_host
from server.settings import FLAGS, Settings, SettingsError, load_settings, physical_cores


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable of ours is set, whatever the shell that runs the tests has."""
    for name in [name for name in os.environ if name.startswith(("LLAMA_", "OLLAMA_", "BANKML_"))]:
        monkeypatch.delenv(name)


def test_the_defaults_are_llama_servers_at_ollamas_address() -> None:
    settings = load_settings()
    assert (settings.host, settings.port) == ("127.0.0.1", 11434)
    assert (settings.n_ctx, settings.n_batch, settings.n_ubatch, settings.n_predict) == (0, 2048, 512, -1)
    assert (settings.cache_type_k, settings.cache_type_v, settings.cache_ram) == ("f16", "f16", 8192)
    assert (settings.timeout, settings.keep_alive) == (3600, 300.0)
    assert (settings.slots, settings.metrics, settings.props, settings.cache_prompt) == (True, False, False, True)
    assert settings.sampling == {}


def test_a_flag_beats_the_environment_which_beats_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_settings().n_ctx == 0
    monkeypatch.setenv("LLAMA_ARG_CTX_SIZE", "1024")
    assert load_settings().n_ctx == 1024
    monkeypatch.setenv("BANKML_CTX", "2048")
    assert load_settings().n_ctx == 2048
    assert load_settings({"n_ctx": "4096"}).n_ctx == 4096


def test_every_variable_of_every_setting_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("k\n")
    values = {"keep_alive": "7m", "host": "::1", "port": "81", "cache_type_k": "f16", "cache_type_v": "f16"}
    values |= {
        "api_key_file": str(keys),
        "chat_template_file": str(keys),
        "chat_template_kwargs": '{"a": 1}',
        "slots": "0",
        "cache_prompt": "0",
        "reasoning_format": "none",
        "reasoning": "off",
        "allow_origin": "https://example.com",
        "pooling": "mean",
    }
    defaults = load_settings()
    for name, flag in FLAGS.items():
        for variable in flag.env:
            value = values.get(name, "on" if not flag.metavar else "3")
            if variable in ("OLLAMA_HOST", "BANKML_HOST"):
                value = "[::1]:81"
            monkeypatch.setenv(variable, value)
            changed = getattr(load_settings(), name) != getattr(defaults, name)
            assert changed or value == getattr(defaults, name), variable
            monkeypatch.delenv(variable)


def test_an_empty_variable_counts_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLAMA_ARG_CTX_SIZE", "")
    monkeypatch.setenv("OLLAMA_HOST", "")
    assert (load_settings().n_ctx, load_settings().port) == (0, 11434)


@pytest.mark.parametrize(("word", "value"), [("on", True), ("enabled", True), ("true", True), ("1", True)])
def test_a_switch_takes_llama_servers_words_for_true(word: str, value: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLAMA_ARG_ENDPOINT_METRICS", word)
    assert load_settings().metrics is value


@pytest.mark.parametrize("word", ["off", "disabled", "false", "0"])
def test_a_switch_takes_llama_servers_words_for_false(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLAMA_ARG_ENDPOINT_SLOTS", word)
    assert load_settings().slots is False


def test_the_no_twin_of_a_switchs_variable_turns_it_off_whatever_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLAMA_ARG_NO_CACHE_PROMPT", "1")
    monkeypatch.setenv("LLAMA_ARG_CACHE_PROMPT", "1")
    assert load_settings().cache_prompt is False


@pytest.mark.parametrize(
    ("value", "host", "port"),
    [
        ("0.0.0.0", "0.0.0.0", 11434),
        ("0.0.0.0:8080", "0.0.0.0", 8080),
        (":8080", "127.0.0.1", 8080),
        ("example.com", "example.com", 11434),
        ("http://example.com", "example.com", 80),
        ("https://example.com", "example.com", 443),
        ("https://example.com:1/path", "example.com", 1),
        ("[::1]", "::1", 11434),
        ("[::1]:8080", "::1", 8080),
        ("::1", "::1", 11434),
        ("1.2.3.4:99999", "1.2.3.4", 11434),
        ("1.2.3.4:x", "1.2.3.4", 11434),
        (' "1.2.3.4" ', "1.2.3.4", 11434),
    ],
)
def test_ollama_host_is_read_as_ollama_reads_it(
    value: str, host: str, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ollama_host(value) == (host, port)
    monkeypatch.setenv("OLLAMA_HOST", value)
    assert (load_settings().host, load_settings().port) == (host, port)


@pytest.mark.parametrize(
    ("variables", "host", "port"),
    [
        ({"BANKML_HOST": "1.2.3.4:80"}, "1.2.3.4", 80),
        ({"BANKML_HOST": "1.2.3.4", "OLLAMA_HOST": "5.6.7.8:81"}, "1.2.3.4", 11434),
        ({"BANKML_HOST": "[::1]:80", "LLAMA_ARG_PORT": "82"}, "::1", 80),
        ({"BANKML_HOST": "1.2.3.4:80", "BANKML_PORT": "83", "LLAMA_ARG_HOST": "5.6.7.8"}, "1.2.3.4", 83),
        ({"BANKML_HOST": "1.2.3.4", "LLAMA_ARG_PORT": "82"}, "1.2.3.4", 82),
        ({"BANKML_HOST": "127.0.0.1,::1"}, "127.0.0.1,::1", 11434),
        ({"BANKML_HOST": "/run/bankml.sock"}, "/run/bankml.sock", 11434),
        ({"LLAMA_ARG_HOST": "5.6.7.8", "OLLAMA_HOST": "https://1.2.3.4"}, "5.6.7.8", 11434),
    ],
)
def test_our_own_host_variable_takes_a_port_as_ollamas_does(
    variables: dict[str, str], host: str, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert (load_settings().host, load_settings().port) == (host, port)
    flagged = load_settings({"host": "9.9.9.9", "port": "99"})
    assert (flagged.host, flagged.port) == ("9.9.9.9", 99)


def test_a_port_that_is_none_is_told_by_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BANKML_HOST", "1.2.3.4:x")
    with pytest.raises(SettingsError, match=r"^BANKML_HOST 'x': must be a valid integer"):
        load_settings()


def test_llama_servers_host_and_port_beat_ollamas_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_HOST", "1.2.3.4:81")
    monkeypatch.setenv("LLAMA_ARG_PORT", "82")
    assert (load_settings().host, load_settings().port) == ("1.2.3.4", 82)


@pytest.mark.parametrize(
    ("value", "seconds"), [("10m", 600.0), ("90", 90.0), ("0", 0.0), ("-1", math.inf), ("1h30m", 5400.0)]
)
def test_ollama_keep_alive_is_a_duration_or_seconds(
    value: str, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLAMA_KEEP_ALIVE", value)
    assert load_settings().keep_alive == seconds


def test_several_keys_come_from_a_row_and_a_file(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("# a comment\nthree\n\nfour\n")
    settings = load_settings({"api_keys": 'one,"two, too"', "api_key_file": str(keys)})
    assert settings.api_keys == ("one", "two, too", "three", "four")


def test_keys_are_never_shown() -> None:
    assert "secret" not in repr(load_settings({"api_keys": "secret"}))


def test_aliases_are_a_set_in_order() -> None:
    assert load_settings({"alias": "zebra,ant,zebra"}).alias == ("ant", "zebra")


def test_sampling_holds_what_was_given_by_the_requests_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLAMA_ARG_TOP_K", "7")
    settings = load_settings({"temperature": "0", "repeat_penalty": "1.1", "seed": "42"})
    assert settings.sampling == {"seed": 42, "temperature": 0.0, "top_k": 7, "repeat_penalty": f32(1.1)}
    assert load_settings({"ignore_eos": "on"}).sampling == {"top_k": 7, "ignore_eos": True}
    assert load_settings({"sampler_sequence": "k"}).sampling == {"top_k": 7, "sampler_sequence": ("top_k",)}


def test_threads_default_to_physical_cores_within_the_cpu_set_and_zero_is_all() -> None:
    allowed = len(os.sched_getaffinity(0))
    assert load_settings().n_threads == min(allowed, physical_cores())
    assert load_settings({"n_threads": "0"}).n_threads == allowed
    assert load_settings({"n_threads": "3"}).n_threads == 3


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ({"n_ctx": "x"}, "--ctx-size 'x': must be a valid integer, unable to parse string as an integer"),
        ({"n_ctx": "-1"}, "--ctx-size '-1': must be greater than or equal to 0"),
        ({"n_batch": "0"}, "--batch-size '0': must be greater than or equal to 1"),
        ({"cache_type_k": "q4_0"}, "--cache-type-k 'q4_0': must be 'f16' or 'q8_0'"),
        ({"port": "65536"}, "--port '65536': must be less than or equal to 65535"),
        ({"temperature": "nan"}, "--temperature 'nan': must be a finite number"),
        (
            {"keep_alive": "5 minutes"},
            '--keep-alive \'5 minutes\': time: unknown unit " minutes" in duration "5 minutes"',
        ),
        ({"temperature": "1e39"}, "--temperature '1e39': must be a finite number"),
        ({"repeat_penalty": "0"}, "--repeat-penalty '0': must be greater than 0"),
        ({"repeat_penalty": "1e-39"}, "--repeat-penalty '1e-39': must be a finite number"),
        ({"mirostat": "3"}, "--mirostat '3': must be less than or equal to 2"),
        ({"top_k": "2147483648"}, "--top-k '2147483648': must be less than or equal to 2147483647"),
        (
            {"samplers": "top_k;tempo"},
            "--samplers 'top_k;tempo': there is no sampler 'tempo'; known are penalties dry top_n_sigma top_k typ_p "
            "top_p min_p xtc temperature infill adaptive_p",
        ),
        (
            {"sampler_sequence": "kz"},
            "--sampling-seq 'kz': there is no sampler 'z'; known are e=penalties d=dry s=top_n_sigma k=top_k y=typ_p "
            "p=top_p m=min_p x=xtc t=temperature i=infill a=adaptive_p",
        ),
        (
            {"samplers": "top_k", "sampler_sequence": "k"},
            "--sampling-seq 'k': give --samplers or --sampler-seq, not both",
        ),
        (
            {"logit_bias": ("1+1", "1x1")},
            "--logit-bias: '1x1' must be TOKEN+BIAS or TOKEN-BIAS, such as 15043+1",
        ),
        (
            {"allow_origin": "https://a.example,*"},
            "--allow-origin 'https://a.example,*': '*' is no origin, such as https://example.com; each is named as "
            "browsers send it",
        ),
        ({"listen": "8080"}, "--listen '8080': must be HOST:PORT"),
        ({"upstream": "::1:80"}, "--upstream '::1:80': must be HOST:PORT"),
        ({"upstream": "localhost:65536"}, "--upstream 'localhost:65536': must be HOST:PORT"),
        (
            {"listen": "localhost:1", "port": "2"},
            "--listen and --upstream name the addresses: neither --host nor --port goes with them",
        ),
        ({"pooling": "max"}, "--pooling 'max': must be 'none', 'mean', 'cls', 'last' or 'rank'"),
        ({"reranking": True, "pooling": "mean"}, "--pooling 'mean': --reranking is --pooling rank"),
        ({"n_predict": "-2"}, "--n-predict '-2': must be greater than or equal to -1"),
        ({"api_key_file": "/no/file"}, "--api-key-file: failed to open file '/no/file': No such file or directory"),
    ],
)
def test_a_bad_flag_is_one_line_that_names_it(flags: dict[str, Any], text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(flags)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("flags", "embeds", "pooling"),
    [
        ({}, False, None),
        ({"pooling": "mean"}, False, "mean"),
        ({"embeddings": True}, True, None),
        ({"embeddings": True, "pooling": "rank"}, True, "rank"),
        ({"reranking": True}, True, "rank"),
        ({"reranking": True, "pooling": "rank"}, True, "rank"),
    ],
)
def test_reranking_is_embedding_with_a_pooling_of_its_own(
    flags: dict[str, Any], embeds: bool, pooling: str | None
) -> None:
    settings = load_settings(flags)
    assert (settings.embeds, settings.pooling_type) == (embeds, pooling)


def test_a_bad_variable_is_one_line_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLAMA_ARG_THREADS", "two")
    with pytest.raises(SettingsError, match=r"^LLAMA_ARG_THREADS 'two': must be a valid integer"):
        load_settings()


def test_a_bad_key_is_not_repeated() -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings({"api_keys": 7})
    assert "7" not in str(caught.value)


def test_where_it_listens() -> None:
    assert load_settings({"host": "::1, /run/b.sock", "port": "81"}).addresses == (("::1", 81), ("/run/b.sock", 81))
    both = load_settings({"listen": "127.0.0.1:18093", "upstream": "[::1]:18092"})
    assert both.addresses == (("127.0.0.1", 18093), ("::1", 18092))
    assert load_settings({"upstream": "localhost:1"}).addresses == (("localhost", 1),)


def test_settings_do_not_change() -> None:
    with pytest.raises(ValueError, match="frozen"):
        load_settings().port = 1


def test_no_two_settings_share_a_flag() -> None:
    names = [name for flag in FLAGS.values() for name in flag.names + flag.off]
    assert len(names) == len(set(names))


def test_seed_minus_one_is_the_32_bits_that_ask_for_a_new_seed() -> None:
    assert load_settings({"seed": "-1"}).sampling == {"seed": RANDOM_SEED}


def test_threads_past_llama_servers_limit_are_refused() -> None:
    assert load_settings({"n_threads": "512"}).n_threads == 512
    with pytest.raises(SettingsError, match="less than or equal to 512"):
        load_settings({"n_threads": "513"})


def test_the_help_names_the_engine_s_samplers() -> None:
    """The settings do not import the engine, which is slow; so the names stand there a second time."""
    described = {name: Settings.model_fields[name].description or "" for name in ("samplers", "sampler_sequence")}
    assert f"({';'.join(DEFAULT_SAMPLERS)})" in described["samplers"]
    assert f"({''.join(SAMPLER_LETTERS)})" in described["sampler_sequence"]


def test_a_chat_template_and_its_variables_are_given_by_flags(tmp_path: Path) -> None:
    file = tmp_path / "chat.jinja"
    file.write_text("{{ messages }}")
    flags = {"chat_template_file": str(file), "chat_template_kwargs": '{"a": 1, "enable_thinking": true}'}
    settings = load_settings({**flags, "reasoning": "off"})
    assert settings.chat_template_file == "{{ messages }}"
    assert settings.template_variables == {"a": 1, "enable_thinking": False}
    for name, value in (("chat_template_file", str(tmp_path / "none")), ("chat_template_kwargs", "[1]")):
        with pytest.raises(SettingsError, match=name.replace("_", "-")):
            load_settings({name: value})
