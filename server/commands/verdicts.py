"""`bankml guard` and `verify`: a verdict as text, as JSON and as an exit code."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from engine.errors import one_line
from registry.errors import RegistryError
from registry.gate import Verified
from registry.gguf_guard import Report, Verdict
from server.commands.version import version_text

EXIT_CODES: Final[Mapping[Verdict, int]] = {"play": 0, "refuse": 2, "need_more": 3}


def as_text(path: Path, report: Report) -> str:
    """The verdict on a line, then what the file is, then each reason on its own line."""
    verdict = report.verdict.replace("_", " ")
    reasons = list(report.reasons)
    if report.engine == "prism":
        verdict += " by the rules of PrismML's fork"
        if report.verdict == "play" and not report.native:
            verdict += ", not by this engine"
            reasons += report.native_reasons
    if report.bytes_needed is not None:
        verdict += f" (at least {report.bytes_needed:,} bytes; {report.size:,} are there)"
    return "\n".join([f"{path}: {verdict}", *(f"  {line}" for line in (*_about(report), *reasons))])


def _about(report: Report) -> list[str]:
    if report.records is None:
        return []
    types = ", ".join(f"{count} {name}" for name, count in report.types.items())
    named = [one_line(part) for part in (report.arch, report.name) if part]
    lines = [", ".join([*named, f"{len(report.records)} tensors ({types})"])]
    if report.kv_f16_bytes_per_token is not None:
        lines.append(f"{report.kv_f16_bytes_per_token:,} bytes of f16 KV cache a token")
    return lines


def verified_json(verified: Verified) -> dict[str, Any]:
    """What `bankml verify --json` says of a file that passed, under the names of `GET /bankml`'s `verified`."""
    report = verified.report
    said: dict[str, Any] = {
        "verdict": report.verdict,
        "guard": report.verdict,
        "engine": report.engine,
        "model_sha256": verified.digest.sha256,
        "bankml": version_text(),
        "arch": report.arch,
        "name": report.name,
        "types": report.types,
    }
    return said if report.engine == "mainline" else said | {"native": report.native}


def refusal_json(error: RegistryError) -> dict[str, Any]:
    """What `bankml verify --json` says of a file that did not."""
    return {"verdict": "refuse", "reason": str(error), "bankml": version_text()}
