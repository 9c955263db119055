"""llama-server's own endpoints: `/completion`, `/infill`, `/tokenize`, `/detokenize`, `/apply-template`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from engine.generation import Step
from engine.model import Model
from server.answers import Answer
from server.routes.chat import ChatRun
from server.routes.common import (
    Body,
    Run,
    Style,
    asked_model,
    completion_fields,
    completion_jobs,
    defaults_of,
    in_turn,
    json_response,
    model_for,
    ping_of,
    read_body,
    residency_of,
    run_stream,
    run_whole,
    settings_of,
    shown_name,
)
from server.streams import SSE, EventStream, until_disconnect
from server.wire import infill, llama, openai, openai_completions
from server.wire.fields import CompletionFields
from slots.slot import Job


async def completion(request: Request) -> Response:
    """`POST /completion`: one prompt or several, whole or streamed."""
    body = await read_body(request)
    prompt = llama.required_prompt(body.json)
    known = openai_completions.COMPLETION_KNOWN
    return await _complete(request, body, known, lambda model: llama.tokenize_prompts(model.tokenizer, prompt))


async def fill(request: Request) -> Response:
    """`POST /infill`: what fills the gap between two texts, in the shape of `/completion`."""
    residency, settings = residency_of(request), settings_of(request)
    if residency.catalog.any_name:  # before the body is looked at, as in llama-server
        infill.require_markers((await residency.current_or_default()).model.tokenizer)
    body = await read_body(request)
    asked = await in_turn(request, len(body.raw), infill.parse_infill, body.json)

    def prompts(model: Model) -> list[list[int]]:
        tokens = infill.infill_prompt(
            asked,
            model.tokenizer,
            n_batch=settings.n_batch,
            n_predict=settings.n_predict,
            n_ctx=model.n_ctx,
            suffix_first=settings.spm_infill,
        )
        return [tokens]

    return await _complete(request, body, infill.KNOWN, prompts, asked.ignored)


async def _complete(
    request: Request,
    body: Body,
    known: frozenset[str],
    prompts: Callable[[Model], list[list[int]]],
    ignored: tuple[str, ...] = (),
) -> Response:
    """The answer to a completion request, whole or streamed.

    Args:
        known: names of fields that are known besides those of every completion.
        prompts: their tokens.
        ignored: fields that were accepted and change nothing, besides those that `known` leaves over.
    """
    residency, defaults, settings = residency_of(request), defaults_of(request), settings_of(request)
    entry = await asked_model(request, body.json)
    fields, num_ctx = await completion_fields(request, body, entry, known)

    def build(model: Model) -> list[Job]:
        return completion_jobs(prompts(model), fields, num_ctx, model, defaults)

    def events_of(answer: Answer) -> llama.NativeEvents:
        name, reasoning_format = shown_name(settings, answer.entry), settings.reasoning_format
        form = llama.Format(name, fields, defaults.n_predict, reasoning_format=reasoning_format)
        return llama.NativeEvents(answer.model, answer.jobs, form)

    run = Run(residency, entry, build, body, (*fields.ignored, *ignored), num_ctx)
    if fields.stream:
        return EventStream(
            run_stream(run, lambda answer: _Style(events_of(answer))), SSE, ping=ping_of(request, fields)
        )
    whole = await until_disconnect(request, run_whole(run))
    events = events_of(whole.answer)
    bodies = [events.final(index, *end) for index, end in enumerate(whole.finals)]
    whole.receipt.text(llama.whole_text(whole.finals[0][0]))
    receipt = whole.finish()
    bodies = [_receipted(shown, receipt, fields) for shown in bodies]
    return json_response(bodies[0] if len(bodies) == 1 else bodies)


def _receipted(shown: dict[str, Any], receipt: Mapping[str, Any], fields: CompletionFields) -> dict[str, Any]:
    """An answer with its receipt, unless the request names the fields it wants and this is none of them."""
    wanted = not fields.response_fields or "bankml_receipt" in fields.response_fields
    return {**shown, "bankml_receipt": receipt} if wanted else shown


class _Style(Style):
    """A `/completion` stream; its last event has the receipt, as a whole answer has."""

    def __init__(self, events: llama.NativeEvents) -> None:
        self._events = events
        self._last: dict[str, Any] = {}

    def text_of(self, index: int, step: Step) -> str:
        return step.text if step.send else ""

    def events(self, index: int, step: Step, text: str) -> Iterator[dict[str, Any]]:
        if step.send or step.progress is not None:
            yield self._events.partial(index, step)
        if step.final is not None:
            self._last = self._events.final(index, step.final, step.timings)
            if index + 1 < len(self._events.jobs):
                yield self._last

    def receipt(self, receipt: Mapping[str, Any]) -> dict[str, Any]:
        return _receipted(self._last, receipt, self._events.form.fields)


async def tokenize(request: Request) -> Response:
    """`POST /tokenize`."""
    body = await read_body(request)
    model = await model_for(request, body.json)
    return json_response(await asyncio.to_thread(llama.tokenize, model.tokenizer, body.json))


async def detokenize(request: Request) -> Response:
    """`POST /detokenize`."""
    body = await read_body(request)
    model = await model_for(request, body.json)
    return json_response(await asyncio.to_thread(llama.detokenize, model.tokenizer, body.json))


async def apply_template(request: Request) -> Response:
    """`POST /apply-template`: the prompt a chat request would become."""
    body = await read_body(request, not_an_object=openai.NO_MESSAGES)
    talk = await ChatRun.of(request, body, body.json)
    form, _ = await asyncio.to_thread(talk.prompt_for, await model_for(request, body.json))
    return json_response({"prompt": form.prompt})


routes = [
    Route("/completion", completion, methods=["POST"]),
    Route("/completions", completion, methods=["POST"]),
    Route("/infill", fill, methods=["POST"]),
    Route("/tokenize", tokenize, methods=["POST"]),
    Route("/detokenize", detokenize, methods=["POST"]),
    Route("/apply-template", apply_template, methods=["POST"]),
]
