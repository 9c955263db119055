"""OpenAI's endpoints as llama-server answers them: `/v1/chat/completions` and `/v1/completions`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from engine.chat_formats.formats import ChatFormat
from engine.chat_formats.reader import AnswerReader
from engine.generation import Step
from engine.model import Model
from server.answers import Answer
from server.routes.common import (
    Run,
    asked_model,
    checked_job,
    defaults_of,
    json_response,
    read_body,
    residency_of,
    run_stream,
    run_whole,
    settings_of,
    shown_name,
)
from server.streams import DONE, SSE, EventStream, until_disconnect
from server.wire import llama, openai
from server.wire.chat_output import formed
from server.wire.fields import parse_fields
from slots.residency import Job


async def chat_completions(request: Request) -> Response:
    """`POST /v1/chat/completions`, whole or streamed."""
    body = await read_body(request)
    chat = openai.parse_chat(body.json)
    residency, defaults, settings = residency_of(request), defaults_of(request), settings_of(request)
    forms: list[ChatFormat] = []

    def build(model: Model) -> list[Job]:
        template = openai.required_template(model.template)
        form = openai.chat_form(chat, template, settings.reasoning_format, settings.template_variables)
        forms[:] = [form]
        tokens = model.tokenizer.encode(form.prompt, add_special=True, parse_special=True)
        return [checked_job(tokens, formed(chat.fields, form), model, defaults)]

    def shown_as(answer: Answer) -> llama.Format:
        return llama.Format(shown_name(settings, answer.entry), chat.fields, defaults.n_predict)

    def style_of(answer: Answer) -> _ChatStyle:
        reader = AnswerReader(forms[0], begun=chat.continuation is not None and not chat.echo_prefill)
        return _ChatStyle(openai.ChatChunks(reader, shown_as(answer)))

    run = Run(residency, asked_model(residency, body.json), build, body, chat.ignored)
    if chat.fields.stream:
        return EventStream(run_stream(run, style_of), SSE, ping=chat.fields.sse_ping_interval)
    whole = await until_disconnect(request, run_whole(run))
    final, timings = whole.finals[0]
    message = openai.chat_message(forms[0], final)
    shown = openai.chat_body(message, final, timings, shown_as(whole.answer))
    whole.receipt.text(message.reasoning + message.content)
    shown["bankml_receipt"] = whole.finish()
    return json_response(shown)


class _ChatStyle:
    """A chat stream."""

    end = DONE

    def __init__(self, chunks: openai.ChatChunks) -> None:
        self._chunks = chunks

    def text_of(self, index: int, step: Step) -> str:
        return self._chunks.text_of(step)

    def events(self, index: int, step: Step, text: str) -> Iterator[dict[str, Any]]:
        return self._chunks.of_step(step, text)

    def receipt(self, receipt: Mapping[str, Any]) -> dict[str, Any]:
        return self._chunks.receipt(receipt)


async def completions(request: Request) -> Response:
    """`POST /v1/completions`: one prompt or several, whole or streamed."""
    body = await read_body(request)
    prompt = llama.required_prompt(body.json)
    fields = parse_fields(body.json, openai.COMPLETION_KNOWN)
    residency, defaults, settings = residency_of(request), defaults_of(request), settings_of(request)

    def build(model: Model) -> list[Job]:
        prompts = llama.tokenize_prompts(model.tokenizer, prompt)
        return [checked_job(tokens, fields, model, defaults) for tokens in prompts]

    def form_of(answer: Answer) -> llama.Format:
        return llama.Format(shown_name(settings, answer.entry), fields, defaults.n_predict)

    ignored = fields.ignored + (("echo",) if fields.echo else ())
    run = Run(residency, asked_model(residency, body.json), build, body, ignored)
    if fields.stream:
        events = run_stream(run, lambda answer: _CompletionStyle(openai.CompletionChunks(form_of(answer))))
        return EventStream(events, SSE, ping=fields.sse_ping_interval)
    whole = await until_disconnect(request, run_whole(run))
    shown = openai.completion_body(whole.finals, form_of(whole.answer))
    whole.receipt.text(shown["choices"][0]["text"])
    shown["bankml_receipt"] = whole.finish()
    return json_response(shown)


class _CompletionStyle:
    """A `/v1/completions` stream."""

    end = DONE

    def __init__(self, chunks: openai.CompletionChunks) -> None:
        self._chunks = chunks

    def text_of(self, index: int, step: Step) -> str:
        return step.text if step.send else ""

    def events(self, index: int, step: Step, text: str) -> Iterator[dict[str, Any]]:
        return self._chunks.of_step(index, step)

    def receipt(self, receipt: Mapping[str, Any]) -> dict[str, Any]:
        return self._chunks.receipt(receipt)


routes = [
    Route("/v1/chat/completions", chat_completions, methods=["POST"]),
    Route("/chat/completions", chat_completions, methods=["POST"]),
    Route("/v1/completions", completions, methods=["POST"]),
]
