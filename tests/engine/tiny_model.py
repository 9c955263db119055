"""Small seeded Llamas to change and write."""

from __future__ import annotations

import string

import numpy as np

from engine.gguf import GGMLType
from testing.gguf_writer import ModelFile, TensorData, floats
from testing.oracles.blocks import LAYOUTS, scale_offsets


def random_matrix(kind: GGMLType, rows: int, cols: int, rng: np.random.Generator) -> TensorData:
    """Weights around zero; in a quantized type any bytes as quants under ordinary half-precision scales."""
    if kind is GGMLType.F32:
        data = rng.normal(0, 0.1, (rows, cols)).astype(np.float32)
    elif kind is GGMLType.F16:
        data = rng.normal(0, 0.1, (rows, cols)).astype(np.float16)
    elif kind is GGMLType.BF16:
        data = (rng.normal(0, 0.1, (rows, cols)).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    else:
        count = rows * cols // kind.block_size
        data = rng.integers(0, 256, (count, kind.block_bytes), dtype=np.uint8)
        for at in scale_offsets(kind) if kind in LAYOUTS else ():
            data[:, at : at + 2] = rng.normal(0, 0.01, count).astype(np.float16).view(np.uint8).reshape(count, 2)
    return TensorData(kind, (cols, rows), data.tobytes())


N_VOCAB, N_EMBD, N_LAYER, N_HEAD, N_HEAD_KV, HEAD_SIZE, N_FF, N_CTX_TRAIN = 64, 64, 2, 2, 1, 32, 96, 1000
TOKENS = ["<|endoftext|>", "Ġ", *string.ascii_letters, *string.digits[:9], "ab"]

# A layer each, in the order q, k, v, output, gate, up, down: products of one input in one type, and in several.
LAYER_TYPES = (
    (*(GGMLType.Q4_1,) * 2, GGMLType.Q8_0, *(GGMLType.Q4_1,) * 4),
    (GGMLType.F32, GGMLType.F16, GGMLType.Q4_1, GGMLType.F32, GGMLType.F16, GGMLType.Q8_0, GGMLType.F16),
)


def tiny_llama(seed: int = 0) -> ModelFile:
    """A seeded Llama of two layers and every weight type, with a byte-level vocabulary and tied embeddings."""
    rng = np.random.default_rng(seed)
    metadata = {
        "general.architecture": "llama",
        "llama.context_length": N_CTX_TRAIN,
        "llama.embedding_length": N_EMBD,
        "llama.block_count": N_LAYER,
        "llama.feed_forward_length": N_FF,
        "llama.attention.head_count": N_HEAD,
        "llama.attention.head_count_kv": N_HEAD_KV,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": TOKENS,
        "tokenizer.ggml.token_type": [3] + [1] * (N_VOCAB - 1),
        "tokenizer.ggml.merges": ["a b"],
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 0,
    }
    shapes = {
        "attn_q": (N_HEAD * HEAD_SIZE, N_EMBD),
        "attn_k": (N_HEAD_KV * HEAD_SIZE, N_EMBD),
        "attn_v": (N_HEAD_KV * HEAD_SIZE, N_EMBD),
        "attn_output": (N_EMBD, N_HEAD * HEAD_SIZE),
        "ffn_gate": (N_FF, N_EMBD),
        "ffn_up": (N_FF, N_EMBD),
        "ffn_down": (N_EMBD, N_FF),
    }
    tensors = {"token_embd.weight": random_matrix(GGMLType.Q8_0, N_VOCAB, N_EMBD, rng)}
    for i, kinds in enumerate(LAYER_TYPES):
        for (name, shape), kind in zip(shapes.items(), kinds, strict=True):
            tensors[f"blk.{i}.{name}.weight"] = random_matrix(kind, *shape, rng)
        for name in ("attn_norm", "ffn_norm"):
            tensors[f"blk.{i}.{name}.weight"] = floats(rng.normal(1, 0.1, N_EMBD).tolist())
    tensors["output_norm.weight"] = floats(rng.normal(1, 0.1, N_EMBD).tolist())
    return ModelFile(metadata, tensors)
