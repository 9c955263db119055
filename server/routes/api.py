"""Ollama's answers: `/api/generate` and `/api/chat`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from engine import generation
from engine.chat_formats.messages import ChatMessage
from engine.chat_formats.reader import AnswerReader
from engine.generation import Step
from engine.timings import Timings
from registry.catalog import Entry
from registry.headers import look
from server.answers import Answer, open_answer, open_lease
from server.errors import BadRequest, as_api_error, log_failure
from server.receipts import Receipt
from server.routes.api_jobs import Jobs, check_capabilities
from server.routes.api_names import entry_for
from server.routes.common import as_bad_request, defaults_of, in_turn, json_response, parsed, residency_of
from server.streams import NDJSON, EventStream, ndjson, until_disconnect
from server.wire import ollama
from server.wire import ollama_answers as shown_as
from server.wire.golang import InvalidBody
from server.wire.ollama_capabilities import check
from slots.residency import Residency


async def generate(request: Request) -> Response:
    """`POST /api/generate`."""
    return await _answer(request, await parsed(request, ollama.parse_generate))


async def chat(request: Request) -> Response:
    """`POST /api/chat`."""
    return await _answer(request, await parsed(request, ollama.parse_chat))


class _Talk:
    """One request on its way to its objects.

    Args:
        request: as it came.
        entry: the model it names.
        asked: what it asks, with what the model adds.
        body: its bytes.
    """

    def __init__(self, request: Request, entry: Entry, asked: ollama.Request, body: bytes) -> None:
        self._body = body
        self._residency = residency_of(request)
        self._entry = entry
        self.asked = asked
        self._jobs = Jobs(asked, defaults_of(request))
        self._keep_alive = self._residency.keep_alive if asked.keep_alive is None else asked.keep_alive
        self._started_ns = self._loaded_ns = time.perf_counter_ns()

    async def load(self) -> dict[str, Any]:
        """Load the model and say so."""
        asked, num_ctx = self.asked, self.asked.options.num_ctx
        async with self._residency.acquire(self._entry, self._keep_alive, num_ctx=num_ctx) as lease:
            check_capabilities(asked, lease.model)
            return shown_as.nothing_done(asked.api, asked.model, "load")

    async def render(self) -> dict[str, Any]:
        """The prompt, and no answer."""
        asked, num_ctx = self.asked, self.asked.options.num_ctx
        async with open_lease(self._residency, self._entry, self._jobs, keep_alive=self._keep_alive, num_ctx=num_ctx):
            return shown_as.rendered(asked.api, asked.model, self._jobs.prompt.text)

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
        receipt.text(said.reasoning + said.content + shown_as.arguments_text(said.tool_calls))
        measured = await self._measured(answer, step.final, step.timings, receipt)
        return shown_as.final(asked.api, asked.model, said, measured, shown)

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
                    events = [shown_as.part(asked.api, asked.model, *piece) for piece in pieces if any(piece)]
                    if step.final is not None:
                        calls = () if reader is None else reader.message.tool_calls
                        receipt.text(shown_as.arguments_text(calls))
                        measured = await self._measured(answer, step.final, step.timings, receipt)
                        last = ChatMessage(tool_calls=calls)
                        events.append(shown_as.final(asked.api, asked.model, last, measured))
                    began = True
                    yield b"".join(map(ndjson, events))
        except Exception as error:
            if not began:
                raise
            log_failure("a stream", error)
            yield ndjson(shown_as.error(as_api_error(error).message))

    def _reader(self) -> AnswerReader | None:
        """Cuts the answer; what a final assistant message began is not said again."""
        form = self._jobs.prompt.form
        return None if form is None else AnswerReader(form, begun=True)

    def _said(self, text: str) -> ChatMessage:
        """A whole answer, cut."""
        reader = self._reader()
        if reader is None:
            return ChatMessage(text)
        added = reader.end(text)
        content, reasoning = ("".join(getattr(delta, part) for delta in added) for part in ("content", "reasoning"))
        return ChatMessage(content, reasoning, reader.message.tool_calls) or ChatMessage(text)

    def _pieces(self, step: Step, reader: AnswerReader | None) -> Iterator[tuple[ChatMessage, list[dict[str, Any]]]]:
        """What a step adds to a stream, with its `logprobs`: reasoning and content are pieces of their own. Calls are
        not among them: Ollama says them when they are whole, in the end."""
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
        async with open_answer(
            self._residency, self._entry, self._jobs, keep_alive=self._keep_alive, num_ctx=asked.options.num_ctx
        ) as answer:
            self._loaded_ns = time.perf_counter_ns()
            ignored = (*asked.ignored, *self._jobs.unused)
            yield answer, Receipt(answer.entry, self._body, options, self._started_ns, ignored, answer.warnings)

    async def _measured(
        self, answer: Answer, final: generation.Final, timings: Timings, receipt: Receipt
    ) -> shown_as.Measured:
        context: list[int] = []
        if self.asked.api == "generate":
            context = await asyncio.to_thread(self._jobs.context, answer.model, final.text)
        return shown_as.Measured(
            done_reason="length" if final.stop_type == "limit" else "stop",
            total_ns=time.perf_counter_ns() - self._started_ns,
            load_ns=self._loaded_ns - self._started_ns,
            prompt_n=final.tokens_evaluated,
            cache_n=timings.cache_n,
            prompt_ns=timings.prompt_ns,
            predicted_n=timings.predicted_n,
            predicted_ns=timings.predicted_ns,
            context=context,
            dropped=self._jobs.prompt.dropped,
            receipt=receipt.finish(final.tokens_evaluated, timings.predicted_n),
        )


async def _answer(request: Request, given: ollama.Given) -> Response:
    body, residency = await request.body(), residency_of(request)
    entry = await entry_for(residency, given.model)
    if given.unloads:
        return json_response(await until_disconnect(request, _unload(residency, entry, given)))
    talk = _Talk(request, entry, await _requested(request, entry, given, len(body)), body)
    asked = talk.asked
    if asked.only_loads:
        return json_response(await until_disconnect(request, talk.load()))
    if asked.renders:
        return json_response(await until_disconnect(request, talk.render()))
    if asked.stream:
        return EventStream(talk.lines(), NDJSON)
    return json_response(await until_disconnect(request, talk.whole()))


async def _unload(residency: Residency, entry: Entry, given: ollama.Given) -> dict[str, Any]:
    """Unload the model, and say so."""
    if residency.has(entry):
        await residency.unload(entry)
    return shown_as.nothing_done(given.api, given.model, "unload")


async def _requested(request: Request, entry: Entry, given: ollama.Given, n_bytes: int) -> ollama.Request:
    """The request that a body is, with what its model adds.

    Raises:
        BadRequest: what is wrong with it; but what the model cannot do goes before it, as in Ollama.
    """
    residency = residency_of(request)
    as_bad_request(given.check)
    try:
        asked = await in_turn(request, n_bytes, lambda: given.request().under(entry.layer))
    except InvalidBody as error:
        await _check_header(residency, entry, given)
        raise BadRequest(str(error)) from None
    if not residency.has(entry):
        await _check_header(residency, entry, given)  # no model has to go for what this one cannot do
    return asked


async def _check_header(residency: Residency, entry: Entry, given: ollama.Given) -> None:
    """Make sure that a model can do what is asked, without loading it.

    Raises:
        BadRequest: it cannot.
    """
    header, reason = await asyncio.to_thread(look, entry, residency.options)
    if header is not None and reason is None:
        check(given, header.template, pools=header.pools, fills_gaps=header.fills_gaps)


routes = [
    Route("/api/generate", generate, methods=["POST"]),
    Route("/api/chat", chat, methods=["POST"]),
]
