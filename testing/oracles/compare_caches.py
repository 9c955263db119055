"""Attention over every type of the KV cache, ours against the reference's: a part of `make oracle`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

import numpy as np

from engine.ggml_types import GGMLType
from testing.oracles import engine_operations as ours
from testing.oracles.cache_cases import SESSIONS, Session
from testing.oracles.comparison import Report
from testing.oracles.draws import Bytes, Floats
from testing.oracles.reference_ops import Operations


def compare(report: Report, caches: Iterable[str] = ()) -> None:
    """Compares every step of every session, or of those with the caches named, on every code path."""
    only = set(caches)
    for cache, group_of in groupby(SESSIONS, key=lambda session: session.cache):
        if only and cache not in only:
            continue
        expected = {session: list(reference(session)) for session in group_of}
        for isa in ours.CODE_PATHS:
            with report.group("caches", cache, isa) as group:
                for session, steps in expected.items():
                    for step, rows, wanted in zip(
                        session.steps, ours.attention_session(isa, session), steps, strict=True
                    ):
                        group.compare(f"{session.name}: {step[1]} rows at {step[0]}", rows, wanted)


def reference(session: Session) -> Iterator[Floats]:
    """What the reference gives for each step of a session, (rows, heads * size), put together as llama.cpp does.

    Rows of a quantized cache are transformed before they are stored, queries with the keys, and the result back with
    the values, if a head is a multiple of 64: keys by the largest power of two in it, values by 64
    (llama-kv-cache.cpp, llama-graph.cpp).
    """
    operations = Operations(session.n_threads)
    n_head, n_head_kv, size = session.heads
    queries, keys, values = session.rows()
    k_width, v_width = (
        width if kind is GGMLType.Q8_0 and size % 64 == 0 else 0
        for kind, width in zip(session.types, (size & -size, 64), strict=True)
    )

    def transformed(rows: Floats, width: int) -> Floats:
        return operations.hadamard(rows, width) if width else rows

    def stored(rows: Floats, kind: GGMLType) -> Bytes:
        return np.frombuffer(operations.quantize_activations(kind, rows), np.uint8).reshape(len(rows), -1)

    k_type, v_type = session.types
    new_k, new_v = stored(transformed(keys, k_width), k_type), stored(transformed(values, v_width), v_type)
    k = np.zeros((session.n_ctx, new_k.shape[1]), np.uint8)
    v = np.zeros((session.n_ctx, new_v.shape[1]), np.uint8)
    start = 0
    for position, n in session.steps:
        step = slice(start, start + n)
        k[position : position + n], v[position : position + n] = new_k[step], new_v[step]
        n_kv = min(-(-(position + n) // 256) * 256, session.n_ctx)
        last = position + np.arange(n)[:, None]
        mask = np.where(np.arange(n_kv)[None, :] <= last, 0.0, -np.inf).astype(np.float16)
        q = transformed(queries[step], k_width).reshape(n, n_head, size)
        found = operations.flash_attn(
            q, k[:n_kv], v[:n_kv], mask, session.scale, n_head_kv=n_head_kv, type_k=k_type, type_v=v_type
        )
        yield transformed(found.reshape(n, n_head * size), v_width)
        start += n
