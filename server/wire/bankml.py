"""bankML's own endpoints as pure functions: `/bankml`, `/bankml/metrics`, `/bankml/status`.

Names and order of the fields are those that Savante, its console and its status page read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from registry.catalog import Entry
from server.metrics import KEEP, Record
from server.receipts import VERSION
from server.settings import Settings
from slots.verification import Verification

ENGINE = "native"
"""Who computes: what receipts name, too."""


def verified_body(verification: Verification) -> dict[str, Any]:
    """The verified file."""
    return {
        "verdict": "play",
        "guard": "play",
        "engine": "mainline",
        "model_sha256": verification.entry.sha256,
        "bankml": VERSION,
        "arch": verification.architecture,
        "name": verification.name,
        "types": dict(verification.tensor_types),
    }


def upstream_of(settings: Settings) -> str | None:
    """The second address, as `HOST:PORT`."""
    return None if settings.upstream is None else "{}:{}".format(*settings.upstream)


def identity_body(
    verification: Verification, resident: Entry | None, models: Iterable[Entry], settings: Settings
) -> dict[str, Any]:
    """`/bankml`: who answers, from which verified file. It has no key `error`, which would mean that nobody does.

    Args:
        verification: the last one.
        resident: the model that is loaded.
        models: all there are.
    """
    return {
        "bankml": VERSION,
        "engine": ENGINE,
        "model": str(verification.entry.path),
        "verified": verified_body(verification),
        "hashed_at": verification.at,
        "resident": None if resident is None else resident.name,
        "models": [entry.name for entry in models],
        "upstream": upstream_of(settings),
    }


def metrics_body(records: Sequence[Record]) -> dict[str, Any]:
    """`/bankml/metrics`: the kept records and their sums; those of energy over the records that have it."""
    measured = [record for record in records if record.energy_j is not None]
    energy = sum(record.energy_j or 0.0 for record in measured) if measured else None
    tokens = sum(record.completion_tokens for record in measured)
    return {
        "source": ENGINE,
        "kept": len(records),
        "keep": KEEP,
        "prompt_tokens": sum(record.prompt_tokens for record in records),
        "completion_tokens": sum(record.completion_tokens for record in records),
        "energy_j": energy,
        "joules_per_token": _divided(energy, tokens),
        "records": [record_body(record) for record in records],
    }


def record_body(record: Record) -> dict[str, Any]:
    """One record, and the rates that follow from it: of prompt tokens that were computed, of tokens after the first."""
    n_computed = record.prompt_tokens - record.cached_tokens
    return {
        **asdict(record),
        "prompt_tps": _divided(1000 * n_computed, record.prompt_ms) if n_computed else None,
        "eval_tps": _divided(1000 * (record.completion_tokens - 1), record.eval_ms)
        if record.completion_tokens > 1
        else None,
        "joules_per_token": _divided(record.energy_j, record.completion_tokens),
    }


def _divided(amount: float | None, by: float) -> float | None:
    return None if amount is None or not by else round(amount / by, 3)


def serve_body(settings: Settings, *, uptime_s: float, pid: int) -> dict[str, Any]:
    """How the server was started."""
    key, value = settings.cache_type_k, settings.cache_type_v
    return {
        "native": True,
        "listen": "{}:{}".format(*settings.addresses[0]),
        "upstream": upstream_of(settings),
        "uptime_s": round(uptime_s, 1),
        "threads": settings.n_threads,
        "cache_type": key if key == value else f"{key}/{value}",
        "pid": pid,
        "gpu": None,
        "allow_origin": list(settings.allow_origin),
    }


def checks(resident: bool, usage: Mapping[str, Any], disk: Mapping[str, Any], swapped: int | None) -> list[Any]:
    """What an operator would look at first: each with a level (ok, warn, bad, other) and what was seen."""
    free = usage["mem_available_bytes"] / max(1, usage["mem_total_bytes"])
    space = disk["available_bytes"]
    return [
        _check("model", "ok" if resident else "other", "resident" if resident else "loaded with the next request"),
        _check("memory", "ok" if free >= 0.1 else "warn", f"{free:.0%} available"),
        _check("swap", "warn" if swapped else "ok", "not known" if swapped is None else f"{swapped} bytes swapped out"),
        _check(
            "disk",
            "other" if space is None else "ok" if space >= 1 << 30 else "warn",
            "not known" if space is None else f"{space} bytes available",
        ),
    ]


def _check(name: str, level: str, seen: str) -> dict[str, str]:
    return {"check": name, "level": level, "seen": seen}
