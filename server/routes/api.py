"""Ollama's answers: `/api/generate` and `/api/chat`."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from engine import generation
from engine.chat_formats.formats import ChatFormat
from engine.chat_formats.messages import ChatMessage
from engine.chat_formats.reader import AnswerReader
from engine.errors import ContextOverflow
from engine.generation import Step
from engine.model import Model
from engine.timings import Timings
from server.answers import Answer, open_answer
from server.errors import BadRequest, as_api_error, log_failure
from server.receipts import Receipt
from server.routes.common import checked_jobs, defaults_of, json_response, parsed, residency_of
from server.streams import NDJSON, EventStream, ndjson, until_disconnect
from server.wire import ollama, openai
from server.wire.chat_output import formed
from server.wire.fields import parse_fields
from server.wire.llama import Defaults, tokenize_prompt
from server.wire.ollama_logprobs import Logprobs
from slots.slot import Job

MIN_CTX: Final = 4
"""Tokens of the smallest context Ollama runs with; a `num_ctx` below counts as this."""


async def generate(request: Request) -> Response:
    """`POST /api/generate`."""
    body = await request.body()
    return await _answer(request, parsed(ollama.parse_generate, body), body)


async def chat(request: Request) -> Response:
    """`POST /api/chat`."""
    body = await request.body()
    return await _answer(request, parsed(ollama.parse_chat, body), body)


class _Jobs:
    """Builds a request's one job, and remembers what its answer needs.

    Attributes:
        dropped: how many messages did not fit.
        form: how the answer looks; None where no template made the prompt.
        logprobs: how to show probabilities; None where nobody asks.
    """

    def __init__(self, asked: ollama.Request, defaults: Defaults) -> None:
        self.asked = asked
        self.defaults = defaults
        self.dropped = 0
        self.form: ChatFormat | None = None
        self.logprobs: Logprobs | None = None

    def __call__(self, model: Model) -> list[Job]:
        """The job for `model`.

        Raises:
            BadRequest, InvalidRequest: what is wrong with the request.
            ContextOverflow: the prompt has no room.
        """
        asked, options = self.asked, self.asked.options
        n_ctx = model.n_ctx if options.num_ctx is None else max(options.num_ctx, MIN_CTX)
        if n_ctx > model.n_ctx:
            raise BadRequest(f"num_ctx {n_ctx} is more than the context of {model.n_ctx} tokens that is served")
        if asked.prompt is None:
            prompt, self.form = self._conversation(model, min(n_ctx, model.n_ctx - 1))
        else:
            prompt = tokenize_prompt(model.tokenizer, asked.prompt)
        if len(prompt) > n_ctx:
            raise ContextOverflow(len(prompt), n_ctx)
        sampling: dict[str, Any] = dict(options.sampling)
        if asked.top_logprobs is not None:
            self.logprobs = Logprobs(asked.top_logprobs, model.tokenizer.piece)
            sampling["n_probs"] = max(1, asked.top_logprobs)
        if sampling.get("repeat_last_n") == -1:
            sampling["repeat_last_n"] = n_ctx
        if self.form is None and asked.schema is not None:
            sampling["json_schema"] = asked.schema
        fields = parse_fields({**sampling, "n_predict": options.num_predict, "stop": list(options.stop)})
        if self.form is not None:
            fields = formed(fields, self.form)
        return checked_jobs(prompt, fields, model, self.defaults)

    def _conversation(self, model: Model, limit: int) -> tuple[list[int], ChatFormat]:
        """The tokens of the conversation, its oldest messages left out where it would have more than `limit`, and how
        its answer looks."""
        template = openai.required_template(model.template)

        def formatted(messages: Sequence[dict[str, str]]) -> tuple[list[int], ChatFormat]:
            chat = openai.parse_chat({"messages": list(messages), "json_schema": self.asked.schema})
            form = openai.chat_form(chat, template, variables=self.defaults.template_variables)
            return tokenize_prompt(model.tokenizer, form.prompt), form

        found = formatted(self.asked.messages)
        self.dropped = 0
        if len(found[0]) > limit and self.asked.truncate:
            left, self.dropped = ollama.fit_messages(self.asked.messages, limit, lambda part: len(formatted(part)[0]))
            found = formatted(left)
        return found


class _Talk:
    """One request on its way to its objects.

    Args:
        request: as it came.
        asked: what it asks.
        body: its bytes.
    """

    def __init__(self, request: Request, asked: ollama.Request, body: bytes) -> None:
        self.asked = asked
        self._body = body
        self._residency = residency_of(request)
        self._jobs = _Jobs(asked, defaults_of(request))
        self._keep_alive = self._residency.keep_alive if asked.keep_alive is None else asked.keep_alive
        self._started_ns = self._loaded_ns = time.perf_counter_ns()

    async def load(self) -> dict[str, Any]:
        """Load the model, or unload it, and say so."""
        asked, residency = self.asked, self._residency
        if asked.keep_alive != 0:
            async with residency.acquire(asked.model, self._keep_alive):
                return ollama.nothing_done(asked.api, asked.model, "load")
        entry, resident = residency.catalog.resolve(asked.model), residency.current()
        if resident is not None and resident.entry.path == entry.path:
            await residency.unload()
        return ollama.nothing_done(asked.api, asked.model, "unload")

    async def whole(self) -> dict[str, Any]:
        """The answer as one object."""
        asked = self.asked
        shown: list[dict[str, Any]] = []
        async with self._open() as (answer, receipt):
            async for batch in answer.batches():
                receipt.token()
                shown += [token for _, each in batch for token in self._shown(each)]
                step = batch[-1][1]
        assert step.final is not None, "the engine gave no last step"
        said = self._said(step.final.text)
        receipt.text(said.reasoning + said.content)
        measured = self._measured(step.final, step.timings, receipt)
        return ollama.final(asked.api, asked.model, said, measured, shown)

    async def lines(self) -> AsyncGenerator[bytes, None]:
        """The answer as NDJSON, everything that is ready at a time. What fails after the first line is the last one."""
        asked, began = self.asked, False
        try:
            async with self._open() as (answer, receipt):
                reader = self._reader()
                async for batch in answer.batches():
                    receipt.token()
                    pieces = [piece for _, each in batch for piece in self._pieces(each, reader)]
                    step = batch[-1][1]
                    for said, _ in pieces:
                        receipt.text(said.reasoning + said.content)
                    events = [ollama.part(asked.api, asked.model, *piece) for piece in pieces if any(piece)]
                    if step.final is not None:
                        measured = self._measured(step.final, step.timings, receipt)
                        events.append(ollama.final(asked.api, asked.model, ChatMessage(), measured))
                    began = True
                    yield b"".join(map(ndjson, events))
        except Exception as error:
            if not began:
                raise
            log_failure("a stream", error)
            yield ndjson(ollama.error(as_api_error(error).message))

    def _reader(self) -> AnswerReader | None:
        """Cuts the answer; what a final assistant message began is not said again."""
        return None if self._jobs.form is None else AnswerReader(self._jobs.form, begun=True)

    def _said(self, text: str) -> ChatMessage:
        """A whole answer, cut."""
        reader = self._reader()
        added = [] if reader is None else reader.end(text)
        said = ChatMessage("".join(delta.content for delta in added), "".join(delta.reasoning for delta in added))
        return said or ChatMessage(text)

    def _pieces(self, step: Step, reader: AnswerReader | None) -> Iterator[tuple[ChatMessage, list[dict[str, Any]]]]:
        """What a step adds to a stream, with its `logprobs`: reasoning and content are pieces of their own."""
        shown = self._shown(step)
        text = step.text + ("" if step.final is None else step.final.held)  # no stop string came of what was held
        if reader is None:
            yield ChatMessage(text), shown
            return
        added = reader.add(text) if step.final is None else [*reader.add(text), *reader.end()]
        said = [ChatMessage(delta.content, delta.reasoning) for delta in added] or [ChatMessage()]
        for message in said[:-1]:
            yield message, []
        yield said[-1], shown

    def _shown(self, step: Step) -> list[dict[str, Any]]:
        """What a step adds to `logprobs`."""
        return [] if self._jobs.logprobs is None else self._jobs.logprobs.push(step)

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[tuple[Answer, Receipt]]:
        """The engine at work on the answer, and its receipt."""
        asked, options = self.asked, self._residency.options
        async with open_answer(self._residency, asked.model, self._jobs, keep_alive=self._keep_alive) as answer:
            self._loaded_ns = time.perf_counter_ns()
            yield (
                answer,
                Receipt(answer.entry, self._body, options, self._started_ns, asked.ignored, answer.warnings),
            )

    def _measured(self, final: generation.Final, timings: Timings, receipt: Receipt) -> ollama.Measured:
        return ollama.Measured(
            done_reason="length" if final.stop_type == "limit" else "stop",
            total_ns=time.perf_counter_ns() - self._started_ns,
            load_ns=self._loaded_ns - self._started_ns,
            prompt_n=final.tokens_evaluated,
            cache_n=timings.cache_n,
            prompt_ns=timings.prompt_ns,
            predicted_n=timings.predicted_n,
            predicted_ns=timings.predicted_ns,
            dropped=self._jobs.dropped,
            receipt=receipt.finish(final.tokens_evaluated, timings.predicted_n),
        )


async def _answer(request: Request, asked: ollama.Request, body: bytes) -> Response:
    talk = _Talk(request, asked, body)
    if asked.only_loads:
        return json_response(await until_disconnect(request, talk.load()))
    if asked.stream:
        return EventStream(talk.lines(), NDJSON)
    return json_response(await until_disconnect(request, talk.whole()))


routes = [
    Route("/api/generate", generate, methods=["POST"]),
    Route("/api/chat", chat, methods=["POST"]),
]
