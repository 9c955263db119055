"""llama-server's own endpoints: `/completion`, `/tokenize`, `/detokenize`, `/apply-template`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from engine.generation import Step
from engine.model import Model
from server.answers import Answer
from server.routes.common import (
    Run,
    Style,
    asked_model,
    checked_jobs,
    defaults_of,
    json_response,
    read_body,
    residency_of,
    run_stream,
    run_whole,
    settings_of,
    shown_name,
)
from server.streams import SSE, EventStream, until_disconnect
from server.wire import llama, openai, openai_completions
from server.wire.fields import parse_fields
from slots.slot import Job


async def completion(request: Request) -> Response:
    """`POST /completion`: one prompt or several, whole or streamed."""
    body = await read_body(request)
    prompt = llama.required_prompt(body.json)
    fields = parse_fields(body.json, openai_completions.COMPLETION_KNOWN)
    residency, defaults, settings = residency_of(request), defaults_of(request), settings_of(request)

    def build(model: Model) -> list[Job]:
        prompts = llama.tokenize_prompts(model.tokenizer, prompt)
        return [job for tokens in prompts for job in checked_jobs(tokens, fields, model, defaults)]

    def form_of(answer: Answer) -> llama.Format:
        return llama.Format(
            shown_name(settings, answer.entry), fields, defaults.n_predict, reasoning_format=settings.reasoning_format
        )

    run = Run(residency, asked_model(residency, body.json), build, body, fields.ignored)
    if fields.stream:
        events = run_stream(run, lambda answer: _Style(answer, form_of(answer)))
        return EventStream(events, SSE, ping=fields.sse_ping_interval)
    whole = await until_disconnect(request, run_whole(run))
    answer, form = whole.answer, form_of(whole.answer)
    bodies = [
        llama.final_body(index, final, timings, answer.jobs[index], answer.model, form)
        for index, (final, timings) in enumerate(whole.finals)
    ]
    whole.receipt.text(llama.whole_text(whole.finals[0][0]))
    receipt = whole.finish()
    for shown in bodies:
        shown["bankml_receipt"] = receipt
    return json_response(bodies[0] if len(bodies) == 1 else bodies)


class _Style(Style):
    """A `/completion` stream."""

    def __init__(self, answer: Answer, form: llama.Format) -> None:
        self._answer = answer
        self._form = form

    def text_of(self, index: int, step: Step) -> str:
        return step.text if step.send else ""

    def events(self, index: int, step: Step, text: str) -> Iterator[dict[str, Any]]:
        job = self._answer.jobs[index]
        if step.send or step.progress is not None:
            yield llama.partial_event(index, step, len(job.request.prompt), self._form)
        if step.final is not None:
            yield llama.final_body(index, step.final, step.timings, job, self._answer.model, self._form)

    def receipt(self, receipt: Mapping[str, Any]) -> dict[str, Any]:
        return {"bankml_receipt": receipt}


async def tokenize(request: Request) -> Response:
    """`POST /tokenize`."""
    body = await read_body(request)
    resident = await residency_of(request).current_or_default()
    return json_response(await asyncio.to_thread(llama.tokenize, resident.model.tokenizer, body.json))


async def detokenize(request: Request) -> Response:
    """`POST /detokenize`."""
    body = await read_body(request)
    resident = await residency_of(request).current_or_default()
    return json_response(await asyncio.to_thread(llama.detokenize, resident.model.tokenizer, body.json))


async def apply_template(request: Request) -> Response:
    """`POST /apply-template`: the prompt a chat request would become."""
    body = await read_body(request)
    chat = openai.parse_chat(body.json)
    resident = await residency_of(request).current_or_default()
    template = openai.required_template(resident.model.template)
    settings = settings_of(request)
    how = (chat, template, settings.reasoning_format, settings.template_variables)
    form = await asyncio.to_thread(openai.chat_form, *how)
    return json_response({"prompt": form.prompt})


routes = [
    Route("/completion", completion, methods=["POST"]),
    Route("/completions", completion, methods=["POST"]),
    Route("/tokenize", tokenize, methods=["POST"]),
    Route("/detokenize", detokenize, methods=["POST"]),
    Route("/apply-template", apply_template, methods=["POST"]),
]
