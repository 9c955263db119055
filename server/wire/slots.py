"""llama-server's slots on the wire: a list of the one there is; what became of a saved, restored or erased one."""

from __future__ import annotations

from typing import Any

from server.wire.llama import generation_settings
from slots.slot import Slot, Task


def slots_body(slot: Slot, n_ctx: int) -> list[dict[str, Any]]:
    """The answer of `GET /slots`: the slot, and what it does or did last."""
    task = slot.task
    shown: dict[str, Any] = {"id": 0, "n_ctx": n_ctx, "speculative": False}
    shown["is_processing"] = task is not None and task.running
    return [shown if task is None else shown | _task(task, len(slot.tokens))]


def _task(task: Task, n_tokens: int) -> dict[str, Any]:
    """What is asked, and while it runs how far it is; of a task that is over the numbers are those of none."""
    request = task.job.request
    step = task.step if task.running else None
    n_decoded = 0 if step is None else step.n_decoded
    final = task.step.final if task.step is not None else None
    next_token = {
        "has_next_token": final is None or final.stop_type == "none",  # so it stays where none was sampled
        "has_new_line": step is not None and step.has_new_line,
        "n_remain": request.n_predict - n_decoded if task.running and request.n_predict != -1 else -1,
        "n_decoded": n_decoded,
    }
    return {
        "id_task": task.id,
        "n_prompt_tokens": n_tokens,
        "n_prompt_tokens_processed": task.n_processed if task.running else 0,
        "n_prompt_tokens_cache": task.n_cached if task.running else 0,
        "params": generation_settings(request.sampling, task.job.form, short=True),
        "next_token": [next_token],
    }


def saved_body(name: str, n_tokens: int, n_bytes: int, took_ms: float) -> dict[str, Any]:
    """The answer of `action=save`."""
    count = {"n_saved": n_tokens, "n_written": n_bytes}
    return {"id_slot": 0, "filename": name, **count, "timings": {"save_ms": took_ms}}


def restored_body(name: str, n_tokens: int, n_bytes: int, took_ms: float) -> dict[str, Any]:
    """The answer of `action=restore`."""
    count = {"n_restored": n_tokens, "n_read": n_bytes}
    return {"id_slot": 0, "filename": name, **count, "timings": {"restore_ms": took_ms}}


def erased_body(n_tokens: int) -> dict[str, Any]:
    """The answer of `action=erase`."""
    return {"id_slot": 0, "n_erased": n_tokens}
