"""The one loop: a prompt in, steps out. Every API, the command line and the tests go through it.

The order of things is llama-server b11192's (`server-context.cpp`: `pre_decode`, `post_decode`, `process_token`), so
that tokens, counts and stop reasons are the same: the prompt is evaluated in micro-batches, every prompt token is
accepted into the sampler, then each sampled token is judged before it is evaluated.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from engine.errors import Cancelled, ContextOverflow, InvalidRequest
from engine.sampling import Sampler, SamplingParams, TokenProbabilities, Vocabulary, probabilities
from engine.stops import AnswerText, as_text, cut_bytes
from engine.timings import Timings

StopType = Literal["none", "eos", "word", "limit"]
_clock = time.perf_counter_ns


class Options(Protocol):
    """The part of `ModelOptions` the loop reads."""

    @property
    def n_batch(self) -> int: ...
    @property
    def n_ubatch(self) -> int: ...


class Playable(Protocol):
    """What the loop needs of a model; `engine.model.Model` is one."""

    @property
    def options(self) -> Options: ...
    @property
    def tokenizer(self) -> Vocabulary: ...
    @property
    def n_ctx(self) -> int: ...
    @property
    def n_vocab(self) -> int: ...
    @property
    def logits(self) -> NDArray[np.float32]: ...
    def evaluate(self, tokens: Sequence[int], position: int, *, output: bool) -> None: ...


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """What one answer needs.

    Attributes:
        prompt: token ids, all of them, cached ones included.
        sampling: the resolved sampling parameters.
        n_predict: tokens to sample at most; -1 until the context is full. 0 still samples one, as llama-server does.
        stop: stop strings, in order.
        t_max_predict_ms: when positive, a newline sampled later than this ends the answer.
        n_indent: when positive, a line after the first that is indented less ends the answer.
        post_sampling_probs: with `sampling.n_probs`, show the probabilities the draw chose by, not the model's own.
        return_progress: steps tell how far the prompt is read.
        shared: what the answers to one prompt have in common; None for an answer that is alone.
    """

    prompt: Sequence[int]
    sampling: SamplingParams = field(default_factory=SamplingParams)
    n_predict: int = -1
    stop: tuple[str, ...] = ()
    t_max_predict_ms: int = -1
    n_indent: int = 0
    post_sampling_probs: bool = False
    return_progress: bool = False
    shared: SharedPrompt | None = None


@dataclass(slots=True)
class SharedPrompt:
    """A prompt that several answers begin with, one after another: the first reads it, the others go on from there.

    So each of them draws its first token from the same logits, as llama-server's do, which copies the state.

    Attributes:
        logits: where the prompt ended, (n_vocab,); None until it is read.
        timings: of reading it.
    """

    logits: NDArray[np.float32] | None = None
    timings: Timings = field(default_factory=Timings)


@dataclass(frozen=True, slots=True)
class Shown:
    """A token with its probability, when probabilities are asked for.

    Attributes:
        token: the token.
        data: its bytes. Of a sampled token those released with it, as llama-server has it: none while a stop string may
            have begun, and those of a whole character with the last of its tokens.
        prob, logprob: 32-bit floats.
        best: of a sampled token, the most likely tokens in its place.
    """

    token: int
    data: bytes
    prob: float
    logprob: float
    best: tuple[Shown, ...] = ()


@dataclass(frozen=True, slots=True)
class Final:
    """How an answer ended.

    Attributes:
        stop_type: llama-server's; "none" only for an empty prompt, which samples nothing. When it is "word",
            llama-server adds timings to the partial event of the step.
        stopping_word: the stop string found, or "" (which an empty stop string is too).
        truncated: the context is full.
        tokens: every sampled token, the end token included.
        tokens_cached: tokens in the KV cache now.
        tokens_evaluated: tokens in the prompt, cached ones included.
        seed: the seed really used.
        text: the whole answer in whole characters, what was held back included: the text of an answer not streamed.
        cut: what the answer ends in if that is inside a character, as far as it can be told from its last bytes;
            `text` leaves it out. llama-server shows it, with U+FFFD for what is no character, at the end of
            `/completion` and `/v1/completions` answers and drops it from chat answers.
        held: the end of `text` that no step released, because a stop string could have begun there. llama-server
            never streams it.
        has_new_line: a newline was released.
        shown: the tokens with probabilities, those left out that a stop string cost.
        n_resampled: tokens drawn again because the grammar did not take the first draw.
        grammar_ns: nanoseconds spent on the grammar.
    """

    stop_type: StopType
    stopping_word: str = ""
    truncated: bool = False
    tokens: list[int] = field(default_factory=list)
    tokens_cached: int = 0
    tokens_evaluated: int = 0
    seed: int = 0
    text: str = ""
    cut: bytes = b""
    held: str = ""
    has_new_line: bool = False
    shown: list[Shown] = field(default_factory=list)
    n_resampled: int = 0
    grammar_ns: int = 0


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a prompt is read: llama-server's `prompt_progress`.

    Attributes:
        total: tokens of the prompt.
        cache: those that were in the slot already.
        processed: those that are there now, the cached ones included.
        time_ms: whole milliseconds since the start.
    """

    total: int
    cache: int
    processed: int
    time_ms: int


@dataclass(frozen=True, slots=True)
class Step:
    """One sampled token and what it did to the text; or, when asked for, how far the prompt is read.

    Attributes:
        text: whole characters released now; "" while they are held back.
        token: the token sampled; None only for an empty prompt and with `progress`.
        send: llama-server sends a partial event for this step. It does so for every token that leaves no character
            cut, with empty content when a stop string may have begun; for a cut character it sends nothing.
        n_decoded: tokens sampled so far.
        timings: as of this step.
        final: set on the last step only.
        shown: the token with its probabilities, when they are asked for and `send`.
        has_new_line: a line has ended so far.
        progress: how far the prompt is read, and nothing else, but for the timings.
    """

    text: str
    token: int | None
    send: bool
    n_decoded: int
    timings: Timings
    final: Final | None = None
    shown: Shown | None = None
    has_new_line: bool = False
    progress: Progress | None = None


def never() -> bool:
    """The `cancelled` of a generation nobody can cancel."""
    return False


def generate(
    model: Playable,
    request: GenerationRequest,
    *,
    tokens: list[int],
    n_past: int,
    cancelled: Callable[[], bool] = never,
    on_prompt: Callable[[int, int], None] | None = None,
) -> Generator[Step, None, None]:
    """Evaluates a prompt and samples from it until something ends the answer.

    Args:
        model: the model; its KV cache holds `tokens`.
        request: what to answer.
        tokens: the slot's tokens. Always says exactly what the KV cache holds: cut to `n_past` when the work starts,
            then grown by each token once it is evaluated, whatever ends the generation.
        n_past: how many tokens of the prompt `tokens` already starts with, at least one fewer than the prompt has.
        cancelled: asked before each micro-batch and before each token.
        on_prompt: called with (tokens of the prompt in the cache, tokens of the prompt) at the start and after each
            batch of `n_batch` tokens, when llama-server sends prompt progress.

    Returns:
        A generator of steps; the last one alone has `final`. Closed early, it stops where it is. An empty prompt gives
        one step without a token and leaves `tokens` alone.

    Raises:
        ContextOverflow: at once, when the prompt has as many tokens as the context or more.
        InvalidRequest: at once, for a token outside the vocabulary or parameters the sampler refuses; from the
            iterator, when a grammar cannot go on.
        Cancelled: from the iterator, when `cancelled()` turned true.
    """
    prompt = list(request.prompt)
    if prompt and not (min(prompt) >= 0 and max(prompt) < model.n_vocab):
        raise InvalidRequest("Prompt contains invalid tokens")
    keep_candidates = request.post_sampling_probs and request.sampling.n_probs > 0
    sampler = Sampler(request.sampling, model.tokenizer, keep_candidates=keep_candidates)
    if not prompt:
        return _nothing(Final("none", tokens_cached=len(tokens), seed=sampler.seed))
    if len(prompt) >= model.n_ctx:
        raise ContextOverflow(len(prompt), model.n_ctx)
    if not 0 <= n_past < len(prompt) or n_past > len(tokens):
        raise ValueError(f"n_past is {n_past} with {len(prompt)} prompt tokens and {len(tokens)} cached ones")
    return _run(model, request, prompt, sampler, tokens, n_past, cancelled, on_prompt)


def _nothing(final: Final) -> Generator[Step, None, None]:
    yield Step("", None, False, 0, Timings(), final)


def _run(
    model: Playable,
    request: GenerationRequest,
    prompt: list[int],
    sampler: Sampler,
    tokens: list[int],
    n_past: int,
    cancelled: Callable[[], bool],
    on_prompt: Callable[[int, int], None] | None,
) -> Generator[Step, None, None]:
    started = _clock()
    read, logits = yield from _read_prompt(model, request, tokens, n_past, cancelled, on_prompt)
    sampler.accept_many(prompt)
    answer = _Answer(model, request, prompt, sampler)
    prompt_ns, first = read.prompt_ns, 0
    while True:
        token = sampler.sample(logits)
        sampler.accept(token)
        now = _clock()
        if not answer.tokens:
            first, prompt_ns = now, prompt_ns or now - started
        timings = Timings(read.cache_n, read.prompt_n, prompt_ns, len(answer.tokens) + 1, now - first)
        step = answer.push(token, len(tokens), timings, _probabilities(logits, request, sampler, token))
        yield step
        if step.final is not None:
            return
        if cancelled():
            raise Cancelled("cancelled while generating")
        model.evaluate((token,), len(tokens), output=True)
        tokens.append(token)
        logits = model.logits


def _read_prompt(
    model: Playable,
    request: GenerationRequest,
    tokens: list[int],
    n_past: int,
    cancelled: Callable[[], bool],
    on_prompt: Callable[[int, int], None] | None,
) -> Generator[Step, None, tuple[Timings, NDArray[np.float32]]]:
    """The prompt into the cache, unless another answer has read it. Yields the progress, if it is asked for.

    Returns:
        the counts of the timings, and `prompt_ns` where another answer read it; the logits it ended in.
    """
    prompt, shared, started = list(request.prompt), request.shared, _clock()
    if shared is not None and shared.logits is not None:
        del tokens[len(prompt) :]
        return shared.timings, shared.logits
    del tokens[n_past:]
    for n_done in _evaluate_prompt(model, prompt, tokens, cancelled):
        if on_prompt is not None:
            on_prompt(n_done, len(prompt))
        if request.return_progress:
            yield _progress(n_past, n_done, len(prompt), _clock() - started)
    if shared is not None:
        shared.logits = model.logits.copy()
        shared.timings = Timings(n_past, len(prompt) - n_past, _clock() - started)
    return Timings(n_past, len(prompt) - n_past), model.logits


def _progress(n_past: int, n_done: int, n_prompt: int, elapsed_ns: int) -> Step:
    timings = Timings(n_past, n_done - n_past, elapsed_ns if n_done > n_past else 0)
    return Step("", None, False, 0, timings, progress=Progress(n_prompt, n_past, n_done, elapsed_ns // 1_000_000))


def _probabilities(
    logits: NDArray[np.float32], request: GenerationRequest, sampler: Sampler, token: int
) -> TokenProbabilities | None:
    n_best = request.sampling.n_probs
    if n_best <= 0:
        return None
    if request.post_sampling_probs:
        return sampler.probabilities(n_best, token)
    return probabilities(logits, n_best, token)


def _evaluate_prompt(
    model: Playable, prompt: list[int], tokens: list[int], cancelled: Callable[[], bool]
) -> Iterator[int]:
    """Evaluates what `tokens` lacks of `prompt`, in llama-server's pieces: batches of `n_batch`, each cut into
    micro-batches of `n_ubatch`. Only the last row has logits. Yields the tokens done at the start and after each batch.
    """
    n_batch = model.options.n_batch
    n_ubatch = min(model.options.n_ubatch, n_batch)
    yield len(tokens)
    while len(tokens) < len(prompt):
        batch_end = min(len(tokens) + n_batch, len(prompt))
        while len(tokens) < batch_end:
            if cancelled():
                raise Cancelled("cancelled while reading the prompt")
            start = len(tokens)
            piece = prompt[start : min(start + n_ubatch, batch_end)]
            model.evaluate(piece, start, output=start + len(piece) == len(prompt))
            tokens.extend(piece)
        yield batch_end


class _Answer:
    """The answer so far, and whether it is over. One object a generation."""

    def __init__(self, model: Playable, request: GenerationRequest, prompt: list[int], sampler: Sampler) -> None:
        self._n_ctx = model.n_ctx
        self._tokenizer: Any = model.tokenizer
        self._request = request
        self._n_prompt = len(prompt)
        self._sampler = sampler
        self._text = AnswerText(request.stop)
        self._has_new_line = False
        self._line_start = 0
        self.tokens: list[int] = []
        self._shown: list[Shown] = []

    def push(self, token: int, n_cached: int, timings: Timings, probabilities: TokenProbabilities | None) -> Step:
        """Judges a sampled token: llama-server's `process_token`, its checks in its order (a later one wins).

        Args:
            token: the token, already accepted into the sampler.
            n_cached: tokens in the KV cache, `token` not among them.
            timings: as of this token.
            probabilities: of the token, when they are asked for.
        """
        request = self._request
        ends = self._tokenizer.is_eog(token)
        self.tokens.append(token)
        piece = self._tokenizer.piece(token, special=token in request.sampling.preserved_tokens)
        released = self._text.push(piece, ends=ends)
        shown = None
        if probabilities is not None and released.whole:
            best = tuple(
                Shown(other, self._tokenizer.piece(other), prob, logprob) for other, prob, logprob in probabilities.best
            )
            shown = Shown(token, released.data, probabilities.prob, probabilities.logprob, best)
            self._shown.append(shown)
        stop_type: StopType | None = "word" if released.word is not None else None
        truncated = n_cached + 1 >= self._n_ctx
        n_left = 1 if request.n_predict == -1 else request.n_predict - len(self.tokens)
        if truncated or (stop_type is None and n_left <= 0):
            stop_type = "limit"
        if request.n_indent > 0 and self._has_new_line and self._outdented():
            stop_type = "limit"
        if b"\n" in released.data:
            self._has_new_line = True
            if 0 < request.t_max_predict_ms < timings.predicted_ms:
                stop_type = "limit"
        if ends:
            stop_type = "eos"
        final = None if stop_type is None else self._final(stop_type, released.word or "", truncated, n_cached)
        text = as_text(released.data)
        return Step(text, token, released.whole, len(self.tokens), timings, final, shown, self._has_new_line)

    def _outdented(self) -> bool:
        """Whether the newest line starts with fewer blanks than `n_indent`; if so, that line is cut off."""
        data = self._text.data
        outdented = False
        if self._line_start > 0:
            line = data[self._line_start :]
            n_blank = len(line) - len(line.lstrip(b" \t"))
            if n_blank < len(line) and n_blank < self._request.n_indent:
                outdented = True
                self._text.cut_at(self._line_start + n_blank)
                data = self._text.data
        newline = data.find(b"\n", self._line_start)
        if newline >= 0:
            self._line_start = newline + 1
        return outdented

    def _final(self, stop_type: StopType, word: str, truncated: bool, n_cached: int) -> Final:
        data, held = self._text.data, self._text.held
        n_cut = cut_bytes(data)
        return Final(
            stop_type=stop_type,
            stopping_word=word,
            truncated=truncated,
            tokens=self.tokens,
            tokens_cached=n_cached,
            tokens_evaluated=self._n_prompt,
            seed=self._sampler.seed,
            text=as_text(data[: len(data) - n_cut]),
            cut=data[len(data) - n_cut :],
            held=as_text(held[: len(held) - n_cut]),
            has_new_line=self._has_new_line,
            shown=self._shown_but(word) if stop_type == "word" else self._shown,
            n_resampled=self._sampler.n_resampled,
            grammar_ns=self._sampler.grammar_ns,
        )

    def _shown_but(self, word: str) -> list[Shown]:
        """The reference takes away as many tokens as the stop string has by itself, be they its own or not."""
        n_word = len(self._tokenizer.encode(word, add_special=False, parse_special=False))
        return self._shown[: max(0, len(self._shown) - n_word)]
