"""The one slot: which tokens the KV cache holds, how much of it the next prompt can keep, and what it is doing.

Another conversation's state may be taken up from the `PromptCache` before a prompt is read; see there.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np
import psutil

from engine.generation import GenerationRequest, Step
from slots.prompt_cache import PromptCache, State, common_prefix, share

SIMILARITY: Final = 0.1
"""llama-server's `--slot-prompt-similarity`: a slot that shares more of a prompt than this is kept for it."""

_WELL_KEPT: Final = 0.5
_MIB: Final = 1 << 20


class KvCache(Protocol):
    """What a slot needs of the model whose KV cache it stands for; `engine.model.Model` has it."""

    @property
    def n_ctx(self) -> int: ...
    def cache_state(self, n_tokens: int) -> State: ...
    def restore_cache(self, state: State, n_tokens: int) -> None: ...
    def state_size(self, n_tokens: int) -> int: ...


@dataclass(slots=True, frozen=True)
class Job:
    """One prompt to run.

    Attributes:
        request: what the engine is asked.
        cache_prompt: whether the slot's tokens may be reused.
        id_slot: the slot the client asked for, -1 for any. There is one; but asking for it changes when states are
            parked, as in llama-server.
        form: how the API that asked shows this request; carried for whoever lists the slots.
        asked_ns: when it was asked (`time.perf_counter_ns`).
    """

    request: GenerationRequest
    cache_prompt: bool = True
    id_slot: int = -1
    form: Any = None
    asked_ns: int = field(default_factory=time.perf_counter_ns)


@dataclass(slots=True)
class Task:
    """What the slot is doing, or did last. Written by the engine's thread, read by anyone.

    Attributes:
        id: counts the tasks of one model, from 0.
        job: what was asked.
        follows: another answer has read the prompt.
        n_cached: prompt tokens that were there already, as far as they are this task's to count.
        waited_ns: nanoseconds from asking to the start of the work.
        n_processed: prompt tokens evaluated so far.
        step: the newest step, None while the prompt is read; it has `final` if the answer came to its end.
        begun: whether the engine has taken it up: not so if it refuses it.
        running: whether it goes on.
    """

    id: int
    job: Job
    follows: bool = False
    n_cached: int = 0
    waited_ns: int = 0
    n_processed: int = 0
    step: Step | None = None
    begun: bool = False
    running: bool = True

    def on_prompt(self, n_done: int, n_prompt: int) -> None:
        """`n_done` of `n_prompt` prompt tokens are in the KV cache."""
        self.n_processed = n_done - self.n_cached

    def end(self, n_tokens: int) -> None:
        """It is over, whatever ended it; the slot holds `n_tokens`."""
        if self.begun and not self.follows:
            self.n_processed = max(0, min(n_tokens, len(self.job.request.prompt)) - self.n_cached)
        self.running = False


@dataclass(slots=True)
class Slot:
    """The tokens whose keys and values the engine's cache holds, in order.

    `engine.generation.generate` keeps `tokens` true while it runs, whatever ends it; nobody else writes to it.

    Attributes:
        kv_cache: the cache they stand for.
        parked: other conversations' states, None to keep none.
        similarity: see `SIMILARITY`; 0 for no such rule.
        task: what it does or did last.
    """

    tokens: list[int] = field(default_factory=list)
    kv_cache: KvCache | None = None
    parked: PromptCache | None = None
    similarity: float = SIMILARITY
    task: Task | None = None

    def begin(self, job: Job) -> Task:
        """Make ready for a job: another state may take the slot. Returns the task, `n_cached` tokens of it kept."""
        shared = job.request.shared
        follows = shared is not None and shared.logits is not None
        if not follows and self.parked is not None and self._gives_way(job.request.prompt, job.id_slot):
            self._change_over(job.request.prompt)
        return self.start(job, 0 if follows else self.reuse(job.request.prompt, job.cache_prompt), follows=follows)

    def start(self, job: Job, n_cached: int, *, follows: bool = False) -> Task:
        """Note that a job begins, `n_cached` tokens of its prompt kept; see `Task.follows`."""
        waited_ns = time.perf_counter_ns() - job.asked_ns
        task = Task(0 if self.task is None else self.task.id + 1, job, follows, n_cached, waited_ns)
        self.task = task
        return task

    def reuse(self, prompt: Sequence[int], cache_prompt: bool = True) -> int:
        """How many leading tokens of `prompt` need no evaluation (llama-server's rule).

        The longest common prefix of the slot and the prompt is kept. When that is the whole prompt, one token less is
        kept, for the logits of the last token must be computed anew. With `cache_prompt` false nothing is kept.

        Args:
            prompt: the new prompt's token ids.
            cache_prompt: the request's field of that name.

        Returns:
            `n_past`, from 0 to `len(prompt) - 1` (0 for an empty prompt).
        """
        if not cache_prompt or not prompt:
            return 0
        n_past = common_prefix(self.tokens, prompt)
        return n_past - 1 if n_past == len(prompt) else n_past

    def restore(self, tokens: Sequence[int], state: State) -> None:
        """Hold what was saved: `tokens`, and the KV cache's bytes for them."""
        assert self.kv_cache is not None
        self.clear()
        self.kv_cache.restore_cache(state, len(tokens))
        self.tokens.extend(tokens)

    def clear(self) -> None:
        """Forget everything, as after loading a model."""
        self.tokens.clear()

    def _gives_way(self, prompt: Sequence[int], id_slot: int) -> bool:
        """Whether `prompt` would leave less than half of the slot (server-context.cpp: `get_available_slot`).

        A slot too unlike the prompt gives way as well, and one that is empty, unless the client named the slot.
        """
        if self.similarity == 0:
            return id_slot == -1
        similarity = np.float32(0)
        if self.tokens and prompt and id_slot in (-1, 0):
            shared = share(common_prefix(self.tokens, prompt), len(prompt))
            similarity = shared if shared > np.float32(self.similarity) else similarity
        if id_slot == -1 and not similarity > 0:
            return True
        kept = similarity * np.float32(len(prompt))
        return bool(self.tokens) and bool(kept / np.float32(len(self.tokens)) < _WELL_KEPT)

    def _change_over(self, prompt: Sequence[int]) -> None:
        """Park what the slot holds, and take up what serves `prompt` better."""
        assert self.parked is not None
        assert self.kv_cache is not None
        n_tokens, kv_cache = len(self.tokens), self.kv_cache
        self.parked.park(self.tokens, kv_cache.state_size(n_tokens), lambda: kv_cache.cache_state(n_tokens))
        better = self.parked.take(self.tokens, prompt)
        if better is not None:
            self.restore(better.tokens, better.state)
        self.parked.trim()


@dataclass(frozen=True, slots=True)
class SlotOptions:
    """How the slot goes from one conversation to another; llama-server's flags.

    Attributes:
        cache_ram: MiB of parked states, -1 for no limit, 0 to park none. A limit is at most a quarter of the memory
            that is free when the model is loaded.
        similarity: `--slot-prompt-similarity`.
    """

    cache_ram: int = 8192
    similarity: float = SIMILARITY

    def slot_of(self, model: KvCache) -> Slot:
        """The empty slot of a model just loaded."""
        parked = None
        if self.cache_ram:
            limit = min(self.cache_ram * _MIB, psutil.virtual_memory().available // 4) if self.cache_ram > 0 else 0
            parked = PromptCache(limit, model.n_ctx)
        return Slot(kv_cache=model, parked=parked, similarity=self.similarity)
