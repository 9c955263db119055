"""A chat request on its way to the engine, in whichever API's words it came, and the answer in that API's shape."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from starlette.requests import Request
from starlette.responses import Response

from engine.chat_formats.formats import ChatFormat
from engine.chat_formats.messages import ChatMessage
from engine.chat_formats.reader import AnswerReader
from engine.errors import ContextOverflow
from engine.generation import Final, Step
from engine.model import Model
from engine.timings import Timings
from registry.catalog import Entry
from server.answers import Answer
from server.routes.common import (
    Body,
    Run,
    Style,
    asked_model,
    checked_jobs,
    defaults_under,
    in_turn,
    json_response,
    layer_of,
    ping_of,
    residency_of,
    run_stream,
    run_whole,
    settings_of,
    shown_name,
    within_context,
)
from server.settings import Settings
from server.streams import SSE, EventStream, sse, until_disconnect
from server.wire import layers, openai
from server.wire.chat_output import formed
from server.wire.llama import Format, with_native
from server.wire.named_events import Event, NamedEvents
from server.wire.ollama_fitting import first_to_try, fit_messages
from slots.residency import Residency
from slots.slot import Job


class ChatRun:
    """One chat request: what to run, and how its answer looks.

    Args:
        residency: who has the engine.
        settings: what the command line says.
        entry: the model; None for the one that is served.
        body: what the request said.
        asked: the chat request that it means, in OpenAI's words.
        ignored: names of what was accepted and changes nothing, besides the chat request's own.

    Attributes:
        chat: the chat request, what the model adds to it in it.
        run: for `run_whole` and `run_stream`.

    Raises:
        What `layers.body_under` and `openai.parse_chat` raise.
    """

    def __init__(
        self,
        residency: Residency,
        settings: Settings,
        entry: Entry | None,
        body: Body,
        asked: Mapping[str, Any],
        ignored: Iterable[str] = (),
    ) -> None:
        layer = layer_of(entry)
        self.chat = openai.parse_chat(layers.body_under(layer, asked))
        self._num_ctx = layers.context_of(layer)
        unused = (*self.chat.ignored, *ignored)
        self.run = Run(residency, entry, self._build, body, unused, num_ctx=self._num_ctx)
        self._settings = settings
        self._defaults = defaults_under(settings)
        self._form: ChatFormat | None = None
        self._shown: Format | None = None

    @classmethod
    async def of(cls, request: Request, body: Body, asked: Mapping[str, Any], ignored: Iterable[str] = ()) -> ChatRun:
        """That of an HTTP request, for the model that its body names. Errors as the constructor and `asked_model`."""
        entry = await asked_model(request, body.json)
        residency, settings = residency_of(request), settings_of(request)
        return await in_turn(request, len(body.raw), cls, residency, settings, entry, body, asked, ignored)

    def _build(self, model: Model) -> list[Job]:
        """The job for `model`.

        Raises:
            BadRequest, InvalidRequest: what is wrong with the request.
            ContextOverflow: the prompt has no room.
        """
        self._form, tokens = self.prompt_for(model)
        template = openai.required_template(model.template)
        takes_tools = template.with_tools.capabilities.supports_tools
        self.run.unused[:] = ["tools"] if self.chat.tools.tools and not takes_tools else []
        fields = formed(self.chat.fields, self._form, self._settings.reasoning_budget_message)
        fields = within_context(fields, len(tokens), self._num_ctx, model, self._defaults)
        self._shown = Format(
            "",
            fields,
            self._defaults.n_predict,
            "peg-native",
            self._form.generation_prompt,
            self.chat.reasoning_format or self._settings.reasoning_format,
        )
        return [replace(job, form=self._shown) for job in checked_jobs(tokens, fields, model, self._defaults)]

    def prompt_for(self, model: Model) -> tuple[ChatFormat, list[int]]:
        """The form of the answer, with the prompt for `model`, and the prompt's tokens. Where the model keeps to a
        context of its own, the oldest messages are left out that do not fit it, and the receipt says how many.

        Raises:
            BadRequest, InvalidRequest: what is wrong with the request.
            ContextOverflow: the last message alone does not fit.
        """
        template = openai.required_template(model.template)
        settings = self._settings

        def prompt_of(messages: Sequence[Mapping[str, Any]]) -> tuple[ChatFormat, list[int]]:
            chat = replace(self.chat, messages=tuple(map(dict, messages)))
            form = openai.chat_form(chat, template, settings.reasoning_format, settings.template_variables)
            return form, model.tokenizer.encode(form.prompt, add_special=True, parse_special=True)

        messages = self.chat.messages
        if self._num_ctx is None:
            return prompt_of(messages)
        n_ctx = layers.served_context(self._num_ctx, model.n_ctx)

        def known() -> int:
            return first_to_try(self.chat, template, settings.template_variables, model.tokenizer, n_ctx - 1)

        found, n_dropped = fit_messages(messages, n_ctx - 1, prompt_of, lambda prompt: len(prompt[1]), known)
        if n_dropped:
            self.run.warnings[:] = [f"{n_dropped} messages were left out: the model keeps to a context of {n_ctx}"]
        if len(found[1]) >= n_ctx:
            raise ContextOverflow(len(found[1]), n_ctx)
        return found

    @property
    def form(self) -> ChatFormat:
        """How the answer looks, once it is open."""
        assert self._form is not None, "the answer is not open"
        return self._form

    def shown_as(self, answer: Answer) -> Format:
        """What the answer shows besides its text."""
        assert self._shown is not None, "the answer is not open"
        form = replace(self._shown, model=shown_name(self._settings, answer.entry))
        return with_native(form, answer.model, answer.jobs, verbose=self._settings.verbose)

    def reader(self) -> AnswerReader:
        """Cuts a stream; the beginning of a continued answer is said again where llama-server says it."""
        return AnswerReader(self.form, begun=self.chat.continuation is not None and not self.chat.echo_prefill)


class WholeAnswer(Protocol):
    """Makes the body of an answer that is not streamed."""

    def __call__(self, message: ChatMessage, final: Final, timings: Timings, form: Format, /) -> dict[str, Any]: ...


class StreamedAnswer(Protocol):
    """Makes the events of an answer that is streamed."""

    def __call__(self, reader: AnswerReader, form: Format, /) -> NamedEvents: ...


async def answer_chat(
    request: Request, chat: ChatRun, whole: WholeAnswer, streamed: StreamedAnswer, *, error_event: str = ""
) -> Response:
    """The answer to a chat request in the shape of an API with named events.

    Args:
        error_event: the name of the event that ends a stream which fails; without one it is OpenAI's, with no name.
    """
    fields = chat.chat.fields
    if fields.stream:

        def style_of(answer: Answer) -> Style:
            form = chat.shown_as(answer)
            return _NamedStyle([streamed(chat.reader(), form) for _ in answer.jobs], error_event)

        return EventStream(run_stream(chat.run, style_of), SSE, ping=ping_of(request, fields))
    done = await until_disconnect(request, run_whole(chat.run))
    messages = [openai.chat_message(chat.form, final) for final, _ in done.finals]
    form = chat.shown_as(done.answer)
    bodies = [whole(message, *end, form) for message, end in zip(messages, done.finals, strict=True)]
    done.receipt.text(messages[0].text)
    receipt = done.finish()
    for shown in bodies:
        shown["bankml_receipt"] = receipt
    return json_response(bodies[0] if len(bodies) == 1 else bodies)


class _NamedStyle(Style):
    """A stream of named events, of one answer or several, one behind the other; the receipt is in its last one."""

    def __init__(self, answers: Sequence[NamedEvents], error_event: str) -> None:
        self._answers = answers
        self._error_event = error_event

    def text_of(self, index: int, step: Step) -> str:
        return self._answers[index].text_of(step)

    def events(self, index: int, step: Step, text: str) -> Iterator[Event]:
        yield from self._answers[index].of_step(step)
        if step.final is not None and index < len(self._answers) - 1:
            yield self._answers[index].last()

    def receipt(self, receipt: Mapping[str, Any]) -> Event:
        return self._answers[-1].last(receipt)

    def encode(self, event: Event) -> bytes:
        name, data = event
        return sse(data, name)

    def failure(self, error: Mapping[str, Any]) -> bytes:
        return sse(error, self._error_event) if self._error_event else super().failure(error)
