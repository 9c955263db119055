"""OpenAI's endpoints as llama-server answers them: `/v1/chat/completions` and `/v1/completions`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from engine.generation import Step
from engine.model import Model
from server.answers import Answer
from server.routes.chat import ChatRun
from server.routes.common import (
    Run,
    Style,
    asked_model,
    completion_fields,
    completion_jobs,
    defaults_of,
    json_response,
    ping_of,
    read_body,
    residency_of,
    run_stream,
    run_whole,
    settings_of,
    shown_name,
)
from server.streams import DONE, SSE, EventStream, until_disconnect
from server.wire import llama, openai, openai_completions
from server.wire.openai_parts import new_id
from slots.slot import Job


async def chat_completions(request: Request) -> Response:
    """`POST /v1/chat/completions`, whole or streamed."""
    body = await read_body(request, not_an_object=openai.NO_MESSAGES)
    talk = await ChatRun.of(request, body, body.json)
    chat = talk.chat
    if chat.fields.stream:

        def style_of(answer: Answer) -> _ChatStyle:
            answer_id, form = new_id(), talk.shown_as(answer)
            return _ChatStyle(
                [openai.ChatChunks(talk.reader(), form, index, answer_id) for index in range(len(answer.jobs))]
            )

        return EventStream(run_stream(talk.run, style_of), SSE, ping=ping_of(request, chat.fields))
    whole = await until_disconnect(request, run_whole(talk.run))
    messages = [openai.chat_message(talk.form, final) for final, _ in whole.finals]
    form = talk.shown_as(whole.answer)
    ends = zip(messages, whole.finals, strict=True)
    shown = openai.together([openai.chat_body(message, *end, form) for message, end in ends])
    whole.receipt.text(messages[0].text)
    shown["bankml_receipt"] = whole.finish()
    return json_response(shown)


class _ChatStyle(Style):
    """A chat stream."""

    end = DONE

    def __init__(self, chunks: Sequence[openai.ChatChunks]) -> None:
        self._chunks = chunks

    def text_of(self, index: int, step: Step) -> str:
        return self._chunks[index].text_of(step)

    def events(self, index: int, step: Step, text: str) -> Iterator[dict[str, Any]]:
        return self._chunks[index].of_step(step, text)

    def receipt(self, receipt: Mapping[str, Any]) -> dict[str, Any]:
        return self._chunks[0].receipt(receipt)


async def completions(request: Request) -> Response:
    """`POST /v1/completions`: one prompt or several, whole or streamed."""
    body = await read_body(request)
    prompt = llama.required_prompt(body.json)
    residency, defaults, settings = residency_of(request), defaults_of(request), settings_of(request)
    entry = await asked_model(request, body.json)
    fields, num_ctx = await completion_fields(request, body, entry, openai_completions.COMPLETION_KNOWN)

    def build(model: Model) -> list[Job]:
        return completion_jobs(llama.tokenize_prompts(model.tokenizer, prompt), fields, num_ctx, model, defaults)

    def form_of(answer: Answer) -> llama.Format:
        name, reasoning_format = shown_name(settings, answer.entry), settings.reasoning_format
        form = llama.Format(name, fields, defaults.n_predict, reasoning_format=reasoning_format)
        return llama.with_native(form, answer.model, answer.jobs, verbose=settings.verbose)

    ignored = fields.ignored + (("echo",) if fields.echo else ())
    run = Run(residency, entry, build, body, ignored, num_ctx)
    if fields.stream:
        events = run_stream(run, lambda answer: _CompletionStyle(openai_completions.CompletionChunks(form_of(answer))))
        return EventStream(events, SSE, ping=ping_of(request, fields))
    whole = await until_disconnect(request, run_whole(run))
    shown = openai_completions.completion_body(whole.finals, form_of(whole.answer))
    whole.receipt.text(shown["choices"][0]["text"])
    shown["bankml_receipt"] = whole.finish()
    return json_response(shown)


class _CompletionStyle(Style):
    """A `/v1/completions` stream."""

    end = DONE

    def __init__(self, chunks: openai_completions.CompletionChunks) -> None:
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
