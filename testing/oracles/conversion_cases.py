"""Directories that are converted by the reference and by us, and names that are taken apart."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from testing.hf_models import Files, HFModel, Shapes, added_token, sentencepiece_model
from testing.oracles import vocabularies
from testing.oracles.conversion_vocabularies import n_vocab, tokenizer

TEMPLATE: Final = "{% for message in messages %}{{ message['content'] }}\n{% endfor %}"
CARD: Final = """---
license: [apache-2.0, other]
license_name: own
license_link: https://example.com/LICENSE
language:
- en
- no
library_name: transformers
pipeline_tag: text-generation
tags:
\t- chat
\t- tiny
base_model:
- HuggingFaceTB/SmolLM2-135M
- https://huggingface.co/Qwen/Qwen2.5-0.5B-Instruct-v2
- https://example.com/model
- A model in words
- {name: Own, organization: Us, repo_url: https://example.com/own, doi: 10.1/1}
datasets: HuggingFaceTB/smoltalk-v1.1
model_creator: Somebody
model_type: tiny
description: A model of nothing.
url: https://example.com
---
# A card
"""


def _smollm(**more: Any) -> Files:
    settings = {
        "tokenizer_class": "GPT2Tokenizer",
        "bos_token": "<|im_start|>",
        "eos_token": "<|im_end|>",
        "unk_token": "<|endoftext|>",
        "pad_token": "<|im_end|>",
        "additional_special_tokens": ["<|im_start|>", "<|im_end|>"],
        "chat_template": TEMPLATE,
        "clean_up_tokenization_spaces": False,
        **more,
    }
    return {"tokenizer.json": tokenizer("smollm"), "tokenizer_config.json": settings}


def _qwen(**more: Any) -> Files:
    settings = {
        "tokenizer_class": "Qwen2Tokenizer",
        "add_bos_token": False,
        "bos_token": None,
        "eos_token": "<|endoftext|>",
        "pad_token": {"__type": "AddedToken", "content": "<|endoftext|>", "lstrip": False, "special": True},
        "unk_token": None,
    }
    return {"tokenizer.json": tokenizer("qwen2"), "tokenizer_config.json": settings, **more}


def _llama3(**more: Any) -> Files:
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<|begin_of_text|>",
        "eos_token": "<|end_of_text|>",
        "clean_up_tokenization_spaces": True,
        "chat_template": [{"name": "default", "template": TEMPLATE}, {"name": "tool use", "template": "{{ 1 }}"}],
    }
    return {"tokenizer.json": tokenizer("llama-bpe"), "tokenizer_config.json": settings, **more}


PIECES: Final = 700


def _pieces() -> list[tuple[str, float, int]]:
    keys = vocabularies.sentencepiece()
    names = ("tokens", "scores", "token_type")
    tokens, scores, types = (list(keys[f"tokenizer.ggml.{name}"])[:PIECES] for name in names)
    return [(text, float(score), int(kind)) for text, score, kind in zip(tokens, scores, types, strict=True)]


def _sentencepiece(**more: Any) -> Files:
    settings = {
        "tokenizer_class": "LlamaTokenizer",
        "add_bos_token": True,
        "add_eos_token": False,
        "add_prefix_space": True,
        "bos_token": {"content": "<s>", "__type": "AddedToken"},
        "eos_token": "</s>",
        "chat_template": TEMPLATE,
        "added_tokens_decoder": {
            "0": {"content": "<unk>", "special": True},
            "3": {"content": "<|start|>", "special": False},
            str(PIECES): {"content": "a\u2581b", "special": False},
            str(PIECES + 99): {"content": "beyond", "special": False},
        },
    }
    return {
        "tokenizer.model": sentencepiece_model(_pieces()),
        "added_tokens.json": {"<new>": PIECES + 1, "<far>": PIECES + 1000},
        "tokenizer_config.json": settings,
        **more,
    }


def _extremes(tensors: dict[str, np.ndarray[Any, Any]]) -> None:
    """Values that F16 cannot hold, ties, subnormals, and what is no number."""
    values = tensors["model.layers.0.mlp.up_proj.weight"].reshape(-1)
    values[:12] = [65504, 65519.9, 65520, -1e30, np.inf, -np.inf, 6e-8, 2.9802322e-08, 2.98023e-08, 1e-45, -0.0, 2049]
    values[12:18] = [2051, 1.00048828125, 1.00146484375, 5.9604645e-08, 8.940697e-08, np.nan]


@dataclass(frozen=True, slots=True)
class Case:
    """A directory and the name it is given on the command line, if any."""

    model: HFModel
    model_name: str | None = None


def _smol_shapes(**more: Any) -> Shapes:
    return Shapes(n_vocab=n_vocab("smollm"), **more)


CASES: Final[tuple[Case, ...]] = (
    Case(
        HFModel(
            "TinyLM2-1M-Instruct-v1.5",
            "llama",
            _smol_shapes(n_layer=2),
            lambda: {
                **_smollm(),
                "generation_config.json": {"temperature": 0.6, "top_k": 20, "top_p": 0.95, "eos_token_id": 2},
            },
            {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2, "torch_dtype": "bfloat16"},
        )
    ),
    Case(
        HFModel(
            "merged",
            "llama",
            _smol_shapes(tied=False, biases=True, n_head_kv=4, head_dim=6),
            lambda: {**_smollm(), "README.md": CARD},
            {"head_dim": 6, "attention_bias": True, "_name_or_path": "org/Some-Base-7B-chat-v2"},
            dtype="F32",
            n_parts=3,
        )
    ),
    Case(HFModel("extremes-v2", "llama", _smol_shapes(), _smollm, dtype="F32", changed=_extremes), "A name of its own"),
    Case(HFModel("doubles", "llama", _smol_shapes(n_embd=8), _smollm, dtype="F64", changed=_extremes)),
    Case(
        HFModel(
            "Tiny-Llama-3.2-1B-Instruct",
            "llama",
            Shapes(n_vocab("llama-bpe"), n_embd=8, n_head=2, n_head_kv=1, head_dim=64),
            _llama3,
            {
                "head_dim": 64,
                "rope_theta": 500000.0,
                "rope_scaling": {
                    "factor": 32.0,
                    "low_freq_factor": 1.0,
                    "high_freq_factor": 4.0,
                    "original_max_position_embeddings": 8192,
                    "rope_type": "llama3",
                },
                "eos_token_id": [128001, 128008],
                "bos_token_id": 128000,
            },
            dtype="F16",
            n_parts=2,
        )
    ),
    Case(
        HFModel(
            "Tiny-Llama-3.1-8B",
            "llama",
            Shapes(n_vocab("llama-bpe"), n_embd=4, n_head=1, n_head_kv=1, head_dim=128),
            lambda: _llama3(**{"chat_template.jinja": TEMPLATE}),
            {
                "head_dim": 128,
                "rope_parameters": {
                    "factor": 8.0,
                    "low_freq_factor": 1.0,
                    "high_freq_factor": 4.0,
                    "original_max_position_embeddings": 8192,
                    "rope_type": "llama3",
                    "rope_theta": 500000.0,
                },
                "rope_theta": ...,
            },
        )
    ),
    Case(
        HFModel(
            "tiny-llama-2",
            "llama",
            Shapes(PIECES + 3),
            _sentencepiece,
            {"rope_scaling": {"type": "linear", "factor": 2.0}, "rope_theta": ..., "num_key_value_heads": None},
            changed=lambda tensors: tensors.update(
                {"model.layers.0.self_attn.rotary_emb.inv_freq": np.ones(2, np.float32)}
            ),
        )
    ),
    Case(
        HFModel(
            "Code-Llama-7b",
            "llama",
            Shapes(32016, n_embd=8),
            lambda: {**_sentencepiece(), "tokenizer_config.json": {"tokenizer_class": "CodeLlamaTokenizer"}},
            {"bos_token_id": 1, "eos_token_id": 2},
        )
    ),
    Case(
        HFModel(
            "Qwen2.5-0.5B-Instruct",
            "qwen2",
            Shapes(n_vocab("qwen2"), n_embd=8, biases=True),
            lambda: _qwen(**{"chat_template.jinja": TEMPLATE.replace("\n", "\r\n")}),
            {
                "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768},
                "use_sliding_window": False,
                "sliding_window": 131072,
                "max_window_layers": 21,
                "bos_token_id": 151643,
            },
        )
    ),
    Case(
        HFModel(
            "Qwen3-Embedding",
            "qwen3",
            Shapes(n_vocab("qwen2"), n_embd=8, head_dim=10, norms=True, prefix=""),
            _qwen,
            {"head_dim": 10, "rope_theta": 1000000, "eos_token_id": 151643, "layer_types": ["full_attention"]},
        )
    ),
    Case(
        HFModel(
            "qwen3-of-smol",
            "qwen3",
            _smol_shapes(norms=True, tied=False),
            lambda: _smollm(tokenizer_class="PreTrainedTokenizerFast", add_bos_token=True),
            {"rms_norm_eps": ..., "max_position_embeddings": ..., "rope_theta": ..., "head_dim": 4},
        )
    ),
    Case(
        HFModel(
            "defaults",
            "llama",
            _smol_shapes(n_head=32, n_head_kv=32, head_dim=2),
            lambda: _smollm(tokenizer_class="LlamaTokenizerFast", add_bos_token=False),
            dict.fromkeys(
                (
                    "hidden_size",
                    "intermediate_size",
                    "num_hidden_layers",
                    "num_attention_heads",
                    "num_key_value_heads",
                    "max_position_embeddings",
                    "rms_norm_eps",
                    "rope_theta",
                ),
                ...,
            ),
        )
    ),
    Case(
        HFModel(
            "gpt-2-words",
            "llama",
            Shapes(n_vocab("gpt-2") + 3, n_embd=8),
            lambda: {
                "tokenizer.json": _with_added(
                    "gpt-2", [("@ @", False, False), ("<pad>", False, True), ("\u2581x\u00e9", False, False)]
                )
            },
            {"tokenizer_class": "GPT2Tokenizer"},
        )
    ),
    Case(
        HFModel(
            "star-3b",
            "llama",
            Shapes(n_vocab("starcoder"), n_embd=8),
            lambda: {
                "tokenizer.json": tokenizer("starcoder", merges=_pairs("starcoder")),
                "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", "cls_token": "<|endoftext|>"},
            },
            {"norm_epsilon": 1e-5, "rope_scaling": {"rope_type": "dynamic", "factor": 2.0}},
        )
    ),
)


PLAYED: Final = replace(
    CASES[0].model, shapes=_smol_shapes(n_embd=64, n_head=2, n_head_kv=1, head_dim=32, n_ff=96, n_layer=2)
)
"""A model of extents that are played."""


def _with_added(name: str, tokens: list[tuple[str, bool, bool]]) -> Any:
    file = tokenizer(name)
    whole = set(file["model"]["vocab"])
    first = n_vocab(name)
    for offset, (text, special, normalized) in enumerate(tokens):
        if text not in whole:
            file["model"]["vocab"][text] = first + offset
            file["added_tokens"].append(added_token(first + offset, text, special=special, normalized=normalized))
    return file


def _pairs(name: str) -> list[list[str]]:
    return [merge.split(" ") for merge in tokenizer(name)["model"]["merges"]]


NAMES: Final = (
    "SmolLM2-135M-Instruct",
    "HuggingFaceTB/SmolLM2-1.7B",
    "meta-llama/Llama-2-7b-chat-hf",
    "Meta-Llama-3.1-8B-Instruct",
    "Llama-3.2-1B",
    "Qwen/Qwen2.5-0.5B-Instruct",
    "Qwen3-0.6B",
    "Qwen2.5-14B-Instruct-1M",
    "mistralai/Mixtral-8x7B-Instruct-v0.1",
    "bigscience/bloom-7b1-petals",
    "google/gemma-2-9b-it",
    "microsoft/Phi-3-mini-4k-instruct",
    "merged",
    "mindx-gen39",
    "checkpoint-1500",
    "model",
    "A model in words",
    "./folder",
    "../merged",
    "/x",
    "x/",
    "",
    "-",
    "--a--b-",
    "7B",
    "v1",
    "v1.0-7b",
    "tiny-small",
    "tiny-medium-3B",
    "xl-xxl",
    "base-xl-chat",
    "a-1.5b-v0.2-q4_k_m",
    "a-f16",
    "A-FP32-bf16-iq2_xxs",
    "a-A14B-lora",
    "a-30B-A3B",
    "iter3-a",
    "a-iter3",
    "3-a-4",
    "a-1_5b",
    "a-8K",
    "a-128k-instruct",
    "a-700k",
    "TinyLlama_v1.1",
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B",
    "\u5343-\u4e07-7B",
    "a-\u0663B",
    "a--7B--chat",
    "org/name/more",
    "CamelCase-lower-UPPER-v2.0-1st",
)
"""Names of models and folders, published ones and odd ones."""
COUNTS: Final = (0, 9_000, 999_999, 1_000_000, 1_540_000, 134_515_008, 1_235_814_400, 7_000_000_000, 2_000_000_000_000)
"""Counts of weights to which the names are held."""
