"""Drive the reference's compiled sampler chain and write down what it drew.

`python -m testing.oracles.record_sampler MODEL.gguf`, with the reference installed. libllama's own functions are called
through ctypes on the rows of `sampler_cases.logits`, in the order llama-server builds its chain in.
`records/sampler.json` gets, for each draw, the token, how many candidates were left and a hash of their tokens, logits
and probabilities.
"""

from __future__ import annotations

import argparse
import ctypes
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine.sampling import DEFAULT_SAMPLERS
from testing.oracles import sampler_cases
from testing.oracles.record import sha256_of
from testing.oracles.reference_server import require
from testing.oracles.sampler_cases import CASES, DRY_WORDS, N_STEPS, SamplerCase, digest, logits

RECORD = Path(__file__).parent / "records" / "sampler.json"
_DRY_FOR_TESTS = "_Z30llama_sampler_init_dry_testingffiiRKSt6vectorIS_IiSaIiEESaIS1_EE"
_VOCAB_ONLY = 9 * 8  # offset of llama_model_params.vocab_only
_DEFAULTS: dict[str, Any] = {
    "seed": 42,
    "min_keep": 0,
    "top_k": 40,
    "top_p": 0.95,
    "min_p": 0.05,
    "typical_p": 1.0,
    "top_n_sigma": -1.0,
    "xtc_probability": 0.0,
    "xtc_threshold": 0.1,
    "temperature": 0.8,
    "dynatemp_range": 0.0,
    "dynatemp_exponent": 1.0,
    "repeat_last_n": 64,
    "repeat_penalty": 1.0,
    "frequency_penalty": 0.0,
    "presence_penalty": 0.0,
    "dry_multiplier": 0.0,
    "dry_base": 1.75,
    "dry_allowed_length": 2,
    "dry_penalty_last_n": 64,
    "mirostat": 0,
    "mirostat_tau": 5.0,
    "mirostat_eta": 0.1,
    "adaptive_target": -1.0,
    "adaptive_decay": 0.9,
    "samplers": DEFAULT_SAMPLERS,
}
_PENALTIES = ("repeat_penalty", "frequency_penalty", "presence_penalty")


class TokenData(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int32), ("logit", ctypes.c_float), ("p", ctypes.c_float)]


class TokenDataArray(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.POINTER(TokenData)),
        ("size", ctypes.c_size_t),
        ("selected", ctypes.c_int64),
        ("sorted", ctypes.c_bool),
    ]


class LogitBias(ctypes.Structure):
    _fields_ = [("token", ctypes.c_int32), ("bias", ctypes.c_float)]


class ChainParams(ctypes.Structure):
    _fields_ = [("no_perf", ctypes.c_bool)]


class ModelParams(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_uint8 * 80)]


class IntVector(ctypes.Structure):
    """A std::vector<int>, or of anything else: three pointers."""

    _fields_ = [("begin", ctypes.c_void_p), ("end", ctypes.c_void_p), ("capacity", ctypes.c_void_p)]


class Reference:
    """libllama, as far as the sampler goes, with the vocabulary of a model file."""

    def __init__(self, model: Path) -> None:
        self.lib = ctypes.CDLL(str(require().folder / "libllama.so"), mode=ctypes.RTLD_GLOBAL)
        self.lib.llama_log_set(None, None)
        pointer, integer, number = ctypes.c_void_p, ctypes.c_int32, ctypes.c_float
        size, seed = ctypes.c_size_t, ctypes.c_uint32
        for name, arguments in {
            "llama_sampler_chain_init": [ChainParams],
            "llama_sampler_init_logit_bias": [integer, integer, ctypes.POINTER(LogitBias)],
            "llama_sampler_init_penalties": [integer, integer, number, number, number],
            "llama_sampler_init_dry": [pointer, number, number, integer, integer, pointer, size],
            _DRY_FOR_TESTS: [number, number, integer, integer, ctypes.POINTER(IntVector)],
            "llama_sampler_init_top_n_sigma": [number],
            "llama_sampler_init_top_k": [integer],
            "llama_sampler_init_typical": [number, size],
            "llama_sampler_init_top_p": [number, size],
            "llama_sampler_init_min_p": [number, size],
            "llama_sampler_init_xtc": [number, number, size, seed],
            "llama_sampler_init_temp_ext": [number, number, number],
            "llama_sampler_init_dist": [seed],
            "llama_sampler_init_temp": [number],
            "llama_sampler_init_mirostat": [integer, seed, number, number, integer],
            "llama_sampler_init_mirostat_v2": [seed, number, number],
            "llama_sampler_init_adaptive_p": [number, number, seed],
            "llama_sampler_init_infill": [pointer],
        }.items():
            function = getattr(self.lib, name)
            function.argtypes, function.restype = arguments, pointer
        for name, arguments in {
            "llama_sampler_chain_add": [pointer, pointer],
            "llama_sampler_accept": [pointer, integer],
            "llama_sampler_apply": [pointer, ctypes.POINTER(TokenDataArray)],
            "llama_sampler_free": [pointer],
        }.items():
            function = getattr(self.lib, name)
            function.argtypes, function.restype = arguments, None
        self.vocabulary = self._vocabulary(model)

    @contextmanager
    def chain(self, case: SamplerCase, dry: int | None = None) -> Iterator[int]:
        """The chain `common_sampler_init` builds for a case; `dry` replaces its DRY sampler."""
        lib, get = self.lib, {**_DEFAULTS, **case.params}.__getitem__
        bias = (LogitBias * max(1, len(case.bias)))(*(LogitBias(*pair) for pair in case.bias))
        parts = [lib.llama_sampler_init_logit_bias(case.n_vocab, len(case.bias), bias)] if case.bias else []
        if get("mirostat"):
            parts += [lib.llama_sampler_init_temp(get("temperature")), self._mirostat(case)]
        else:
            parts += [self._stage(case, name, dry) for name in get("samplers") if name != "adaptive_p"]
            parts.append(
                lib.llama_sampler_init_adaptive_p(get("adaptive_target"), get("adaptive_decay"), get("seed"))
                if "adaptive_p" in get("samplers")
                else lib.llama_sampler_init_dist(get("seed"))
            )
        chain = lib.llama_sampler_chain_init(ChainParams(True))
        for part in parts:
            lib.llama_sampler_chain_add(chain, part)
        try:
            yield chain
        finally:
            lib.llama_sampler_free(chain)

    def _mirostat(self, case: SamplerCase) -> int:
        get = {**_DEFAULTS, **case.params}.__getitem__
        seed, tau, eta = get("seed"), get("mirostat_tau"), get("mirostat_eta")
        made: int = (
            self.lib.llama_sampler_init_mirostat(case.n_vocab, seed, tau, eta, 100)
            if get("mirostat") == 1
            else self.lib.llama_sampler_init_mirostat_v2(seed, tau, eta)
        )
        return made

    def _stage(self, case: SamplerCase, name: str, dry: int | None) -> int:
        """A sampler by the name that requests call it."""
        if name == "dry":
            return self._dry(case) if dry is None else dry
        if name == "infill":
            infill: int = self.lib.llama_sampler_init_infill(self.vocabulary)
            return infill
        get = {**_DEFAULTS, **case.params}.__getitem__
        make, *arguments = {
            "penalties": ("penalties", case.n_vocab, "repeat_last_n", *_PENALTIES),
            "top_n_sigma": ("top_n_sigma", "top_n_sigma"),
            "top_k": ("top_k", "top_k"),
            "typ_p": ("typical", "typical_p", "min_keep"),
            "top_p": ("top_p", "top_p", "min_keep"),
            "min_p": ("min_p", "min_p", "min_keep"),
            "xtc": ("xtc", "xtc_probability", "xtc_threshold", "min_keep", "seed"),
            "temperature": ("temp_ext", "temperature", "dynatemp_range", "dynatemp_exponent"),
        }[name]
        function = getattr(self.lib, f"llama_sampler_init_{make}")
        made: int = function(*(get(value) if isinstance(value, str) else value for value in arguments))
        return made

    def _dry(self, case: SamplerCase) -> int:
        get = {**_DEFAULTS, **case.params}.__getitem__
        numbers = [get(f"dry_{name}") for name in ("multiplier", "base", "allowed_length", "penalty_last_n")]
        if not numbers[0] or not case.breakers:
            dry: int = self.lib.llama_sampler_init_dry(None, *numbers, None, 0)
            return dry
        vectors = [(ctypes.c_int32 * len(breaker))(*breaker) for breaker in case.breakers]
        rows = (IntVector * len(vectors))(*(_vector(vector) for vector in vectors))
        with_tokens: int = getattr(self.lib, _DRY_FOR_TESTS)(*numbers, ctypes.byref(_vector(rows)))
        return with_tokens

    def _vocabulary(self, model: Path) -> int:
        """The vocabulary of a model file, loaded without its weights."""
        lib = self.lib
        lib.llama_backend_init()
        lib.llama_model_default_params.restype = ModelParams
        params = lib.llama_model_default_params()
        params.bytes[_VOCAB_ONLY] = 1
        lib.llama_model_load_from_file.argtypes = [ctypes.c_char_p, ModelParams]
        lib.llama_model_load_from_file.restype = ctypes.c_void_p
        lib.llama_model_get_vocab.argtypes, lib.llama_model_get_vocab.restype = [ctypes.c_void_p], ctypes.c_void_p
        vocabulary: int = lib.llama_model_get_vocab(lib.llama_model_load_from_file(bytes(model), params))
        return vocabulary

    def draws(self, case: SamplerCase, chain: int, n_steps: int = N_STEPS) -> list[list[Any]]:
        """[token, candidates left, their hash] of each draw."""
        found = []
        for token in case.prompt:
            self.lib.llama_sampler_accept(chain, token)
        for step in range(n_steps):
            row = logits(case.rows, case.n_vocab, case.row_seed, step)
            data = (TokenData * case.n_vocab)()
            for token, value in enumerate(row.tolist()):
                data[token].id, data[token].logit = token, value
            array = TokenDataArray(data, case.n_vocab, -1, False)
            self.lib.llama_sampler_apply(chain, ctypes.byref(array))
            left = [(x.id, x.logit, x.p) for x in array.data[: array.size]]
            token = left[array.selected][0]
            self.lib.llama_sampler_accept(chain, token)
            found.append([token, len(left), digest(left)])
        return found


def _vector(items: Any) -> IntVector:
    start = ctypes.addressof(items)
    end = start + ctypes.sizeof(items)
    return IntVector(start, end, end)


def dry_case(number: int, prompt: Sequence[int]) -> SamplerCase:
    """The case that shows which tokens of the real vocabulary a list of sequence breakers lets restart."""
    params = {"dry_multiplier": 2.0, "dry_allowed_length": 1, "dry_penalty_last_n": 512, "temperature": 1.0}
    return SamplerCase(f"dry-words-{number}", params, "fine", sampler_cases.FULL, prompt)


def record_words(reference: Reference) -> list[dict[str, Any]]:
    """Draws with the real vocabulary's sequence breakers, after prompts that repeat themselves around them."""
    vocabulary = reference.vocabulary
    found = []
    for number, words in enumerate(DRY_WORDS):
        texts = (ctypes.c_char_p * len(words))(*(word.encode() for word in words))
        sentence = f"One {words[0]} two {words[-1]} three {words[0]}"
        prompt = tokens_of(reference, vocabulary, sentence * 3)
        case = dry_case(number, prompt)
        dry = reference.lib.llama_sampler_init_dry(vocabulary, 2.0, 1.75, 1, 512, texts, len(words))
        with reference.chain(case, dry) as chain:
            found.append({"words": words, "prompt": prompt, "draws": reference.draws(case, chain, 8)})
    return found


def tokens_of(reference: Reference, vocabulary: int, text: str) -> list[int]:
    """A text's tokens, by the reference's tokenizer."""
    data, found = text.encode(), (ctypes.c_int32 * 1024)()
    function = reference.lib.llama_tokenize
    pointer, integer, yes = ctypes.c_void_p, ctypes.c_int32, ctypes.c_bool
    function.argtypes = [pointer, ctypes.c_char_p, integer, pointer, integer, yes, yes]
    return list(found[: function(vocabulary, data, len(data), found, len(found), False, False)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    model = parser.parse_args().model
    reference = Reference(model)
    draws: dict[str, list[list[Any]]] = {}
    for case in CASES:
        with reference.chain(case) as chain:
            draws[case.name] = reference.draws(case, chain)
    record = {
        "header": {"build": "b11192", "model_sha256": sha256_of(model), "draws": "[token, candidates, hash] a step"},
        "cases": draws,
        "words": record_words(reference),
    }
    body = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
    RECORD.write_text(body.replace('],"', '],\n"') + "\n", encoding="utf-8")
    print(f"{len(CASES)} cases, {sum(map(len, draws.values()))} draws -> {RECORD}")


if __name__ == "__main__":
    main()
