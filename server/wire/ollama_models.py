"""What Ollama's `/api/tags`, `/api/ps` and `/api/show` say of a model. Pure functions over its entry and header."""

from __future__ import annotations

from typing import Any, Final

from registry.catalog import Entry
from registry.headers import Header
from server.wire.golang import format_time, human_number

MAX_DURATION_S: Final = (2**63 - 1) / 1e9
"""Seconds in Go's longest duration, about 292 years: how far ahead Ollama dates what never expires."""

_FILE_TYPES: Final = {
    **dict(enumerate(("F32", "F16", "Q4_0", "Q4_1"))),
    **dict(enumerate(("Q8_0", "Q5_0", "Q5_1", "Q2_K", "Q3_K_S", "Q3_K_M", "Q3_K_L"), 7)),
    **dict(enumerate(("Q4_K_S", "Q4_K_M", "Q5_K_S", "Q5_K_M", "Q6_K", "IQ2_XXS", "IQ2_XS", "Q2_K_S"), 14)),
    **dict(enumerate(("IQ3_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ3_M", "IQ2_S", "IQ2_M"), 22)),
    **dict(enumerate(("IQ4_XS", "IQ1_M", "BF16"), 30)),
    **dict(enumerate(("TQ1_0", "TQ2_0", "MXFP4_MOE", "NVFP4", "Q1_0", "Q2_0"), 36)),
}
"""`general.file_type` (llama.cpp's `llama_ftype`) by number."""


def details(header: Header | None) -> dict[str, Any]:
    """The `details` object; empty values for a file that cannot be read."""
    family = header.architecture if header else ""
    file_type = header.metadata.get("general.file_type") if header else None  # anything, in a file of bad faith
    return {
        "parent_model": "",
        "format": "gguf",
        "family": family,
        "families": [family] if family else [],
        "parameter_size": human_number(header.n_params) if header else "",
        "quantization_level": _FILE_TYPES.get(file_type, "unknown") if isinstance(file_type, int) else "unknown",
    }


def listed(entry: Entry, header: Header | None, reason: str | None) -> dict[str, Any]:
    """One model of `/api/tags`.

    Args:
        reason: why it cannot be played, None when it can.
    """
    return {
        "name": entry.shown,
        "model": entry.shown,
        "modified_at": format_time(int(entry.modified_at.timestamp() * 1e6) * 1000),
        "size": entry.size,
        "digest": entry.sha256,
        "details": details(header),
        "bankml": {"native": reason is None, "reason": reason, "file": entry.path.name, "found": header is not None},
    }


def running(entry: Entry, header: Header | None, *, n_ctx: int, expires_at: float, now: float) -> dict[str, Any]:
    """One model of `/api/ps`.

    Args:
        n_ctx: its context in tokens.
        expires_at, now: Unix time in seconds; infinity when it never expires.
    """
    return {
        "name": entry.shown,
        "model": entry.shown,
        "size": entry.size,
        "digest": entry.sha256,
        "details": details(header),
        "expires_at": format_time(int(min(expires_at, now + MAX_DURATION_S) * 1e6) * 1000),
        "size_vram": 0,
        "context_length": n_ctx,
    }


def described(entry: Entry, header: Header, *, n_ctx: int | None, verbose: bool) -> dict[str, Any]:
    """The `/api/show` object.

    Args:
        n_ctx: the context it is served with, None while it is not loaded.
        verbose: with the list of tensors.
    """
    template = str(header.metadata.get("tokenizer.chat_template", ""))
    described: dict[str, Any] = {
        "license": str(header.metadata.get("general.license", "")),
        "modelfile": f'FROM {entry.path}\nTEMPLATE """{template}"""\n',
        "template": template,
        "details": details(header),
        "model_info": dict(sorted(header.metadata.items())),
        "capabilities": ["completion"],
        "modified_at": format_time(int(entry.modified_at.timestamp() * 1e6) * 1000),
        "bankml": {"sha256": entry.sha256, "native": True, "n_ctx": n_ctx},
    }
    described["model_info"]["general.parameter_count"] = header.n_params
    if verbose:
        described["tensors"] = [{"name": name, "type": kind, "shape": shape} for name, kind, shape in header.tensors]
    return described
