"""What the llama-server and OpenAI routes share: reading a body, who answers, running jobs whole or as a stream."""

from __future__ import annotations

import math
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ParamSpec, Protocol, TypeVar

import orjson
from starlette.requests import Request
from starlette.responses import Response

from engine.errors import ContextOverflow, InvalidRequest
from engine.generation import Final, Step
from engine.grammar import grammar_matcher
from engine.model import Model
from engine.timings import Timings
from registry.catalog import Entry
from registry.derived import Layer
from registry.folder import ModelFolder
from registry.json_size import too_much_structure
from server.answers import Answer, Build, open_answer
from server.errors import JSON, BadRequest, error_object, log_failure
from server.json_bytes import json_bytes, json_loads
from server.metrics import Metrics
from server.parse_queue import ParseQueue
from server.receipts import Receipt
from server.settings import Settings
from server.streams import sse
from server.wire import layers
from server.wire.fields import MAX_WORDS, CompletionFields, parse_fields
from server.wire.golang import InvalidBody
from server.wire.llama import Defaults, build_job, choices, json_object
from slots.residency import Residency
from slots.slot import Job

P = ParamSpec("P")
T = TypeVar("T")


def residency_of(request: Request) -> Residency:
    """Who has the engine."""
    residency: Residency = request.app.state.residency
    return residency


def folder_of(request: Request) -> ModelFolder:
    """The folder of models.

    Raises:
        BadRequest: none is served.
    """
    folder = residency_of(request).catalog.folder
    if folder is None:
        raise BadRequest("no folder of models is served: start the server without a file, or with --registry")
    return folder


def settings_of(request: Request) -> Settings:
    """What the command line says."""
    settings: Settings = request.app.state.settings
    return settings


def metrics_of(request: Request) -> Metrics:
    """What the server has done so far."""
    metrics: Metrics = request.app.state.metrics
    return metrics


def defaults_of(request: Request) -> Defaults:
    """What the command line says for requests that do not."""
    return defaults_under(settings_of(request))


def defaults_under(settings: Settings) -> Defaults:
    """What these settings say for requests that do not."""
    return Defaults(
        settings.sampling,
        settings.n_predict,
        settings.cache_prompt,
        settings.reasoning_format,
        settings.template_variables,
    )


def ping_of(request: Request, fields: CompletionFields) -> int:
    """Seconds of silence after which a stream gets a comment: the request's, else the command line's."""
    asked = fields.sse_ping_interval
    return settings_of(request).sse_ping_interval if asked is None else asked


def shown_name(settings: Settings, entry: Entry) -> str:
    """What answers call the model: its first alias, else the file's path, as llama-server; where a folder is served,
    its name."""
    given = entry.identity is not None
    if settings.alias and given:
        return settings.alias[0]
    return str(entry.path) if settings.folder is None else entry.shown


def json_response(body: object) -> Response:
    """A 200 with `body` as JSON."""
    return Response(json_bytes(body), media_type=JSON)


@dataclass(frozen=True, slots=True)
class Body:
    """A request's body: its bytes, its JSON object, and when it was read (`time.perf_counter_ns`)."""

    raw: bytes
    json: dict[str, Any]
    read_ns: int


async def in_turn(request: Request, n_bytes: float, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """`ParseQueue.run` of the server's one."""
    queue: ParseQueue = request.app.state.parse_queue
    return await queue.run(n_bytes, function, *args, **kwargs)


async def read_body(request: Request, *, not_an_object: str = "") -> Body:
    """The body of a POST.

    Args:
        not_an_object: what to say of JSON that is no object; llama-server's usual complaint when left out.

    Raises:
        BadRequest: it is not JSON, or not an object, or has too much in it.
    """
    raw = await request.body()
    read_ns = time.perf_counter_ns()
    value = await in_turn(request, len(raw), parse_json, raw)
    if not_an_object and not isinstance(value, dict):
        raise BadRequest(not_an_object)
    body = json_object(value)
    if len(body) > MAX_WORDS:
        raise BadRequest(f"the body has more than {MAX_WORDS} fields")
    return Body(raw, body, read_ns)


def parse_json(raw: bytes) -> Any:
    """A body as JSON, whatever its kind.

    Raises:
        BadRequest: it is not JSON, or has too much in it.
    """
    if reason := too_much_structure(raw):
        raise BadRequest(reason)
    try:
        return json_loads(raw)
    except orjson.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise BadRequest(f"[json.exception.parse_error.101] parse error at {where}: {error.msg}") from None


async def parsed(request: Request, parse: Callable[[bytes], T]) -> T:
    """What one of Ollama's parsers reads from the body; what is wrong with it is a 400."""
    body = await request.body()
    return await in_turn(request, len(body), as_bad_request, parse, body)


def as_bad_request(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What `function` returns; where it finds something wrong with a body of Ollama's, that is a 400."""
    try:
        return function(*args, **kwargs)
    except InvalidBody as error:
        raise BadRequest(str(error)) from None


async def asked_model(request: Request, body: Mapping[str, Any]) -> Entry | None:
    """The model a request names, the default one for a request that names none; None for the one served, where a
    single file answers whatever the name.

    Raises:
        BadRequest: `model` is not a text where it matters.
        ModelNotFound: there is no such model.
    """
    catalog = residency_of(request).catalog
    if catalog.any_name:
        return None
    name = body.get("model")
    if name is not None and not isinstance(name, str):
        raise BadRequest("'model' must be a string")
    return await catalog.find(name)


def layer_of(entry: Entry | None) -> Layer | None:
    """What a model adds to a request; None where one file answers whatever the name."""
    return None if entry is None else entry.layer


async def completion_fields(
    request: Request, body: Body, entry: Entry | None, known: frozenset[str]
) -> tuple[CompletionFields, int | None]:
    """The fields of a completion request, and the context that its model keeps to, None for all there is.

    Args:
        known: as of `parse_fields`.

    Raises:
        BadRequest: what is wrong with them, or what the model adds cannot be played.
    """
    layer = layer_of(entry)
    num_ctx, asked = layers.context_of(layer), layers.body_under(layer, body.json)
    n_bytes = math.inf if "json_schema" in asked else len(body.raw)  # of which a short one makes a long grammar
    return await in_turn(request, n_bytes, parse_fields, asked, known), num_ctx


async def model_for(request: Request, body: Mapping[str, Any]) -> Model:
    """The model whose tokenizer and template a request wants: the one it names, else the resident or the default one;
    loaded now if need be.

    Raises:
        What `Residency.acquire` raises.
    """
    residency = residency_of(request)
    entry = await asked_model(request, body) if body.get("model") else None
    if entry is not None and not residency.has(entry):
        async with residency.acquire(entry) as lease:
            return lease.model
    return (await residency.current_or_default()).model


def checked_jobs(prompt: list[int], fields: CompletionFields, model: Model, defaults: Defaults) -> list[Job]:
    """The jobs for one prompt, refused here if the engine would refuse them, so before they wait for their turn.

    Not so a prompt that fills the context: it changes what the slot holds before it is refused, as in llama-server.

    Raises:
        InvalidRequest: a token outside the vocabulary, or sampling parameters or a grammar that cannot be.
    """
    job = build_job(prompt, fields, model, defaults)
    sampling = job.request.sampling
    if sampling.grammar.text:
        grammar_matcher(sampling.grammar, model.tokenizer)
    if prompt and not (min(prompt) >= 0 and max(prompt) < model.n_vocab):
        raise InvalidRequest("Prompt contains invalid tokens")
    return choices(job, fields.n_cmpl)


def within_context(
    fields: CompletionFields, n_prompt: int, num_ctx: int | None, model: Model, defaults: Defaults
) -> CompletionFields:
    """The fields of a request whose model keeps to a context of its own: the answer ends where that would be full.

    Args:
        n_prompt: tokens of the prompt.
        num_ctx: that context; None for all that is served.

    Raises:
        BadRequest: it is more than is served.
        ContextOverflow: the prompt fills it.
    """
    if num_ctx is None:
        return fields
    n_ctx = layers.served_context(num_ctx, model.n_ctx)
    room = n_ctx - n_prompt
    if room <= 0:
        raise ContextOverflow(n_prompt, n_ctx)
    limit = defaults.n_predict if fields.n_predict in (None, -1) else fields.n_predict
    return fields.model_copy(update={"n_predict": room if limit is None or limit < 0 else min(limit, room)})


def completion_jobs(
    prompts: Iterable[list[int]], fields: CompletionFields, num_ctx: int | None, model: Model, defaults: Defaults
) -> list[Job]:
    """The jobs of a completion request's prompts; arguments and errors as `within_context` and `checked_jobs`."""
    jobs: list[Job] = []
    for tokens in prompts:
        jobs += checked_jobs(tokens, within_context(fields, len(tokens), num_ctx, model, defaults), model, defaults)
    return jobs


@dataclass(frozen=True, slots=True)
class Run:
    """One request on its way to the engine: everything but how its API shows it.

    Attributes:
        entry: the model, None for the one that is served.
        ignored: names of what was accepted and changes nothing.
        num_ctx: the context the model keeps to, None for all that is served.
        unused: as `ignored`, of what only the model shows to change nothing; `build` writes it.
        warnings: what the answer does not follow; `build` writes it.
    """

    residency: Residency
    entry: Entry | None
    build: Build
    body: Body
    ignored: tuple[str, ...]
    num_ctx: int | None = None
    unused: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def receipt(self, answer: Answer) -> Receipt:
        """The receipt to write while `answer` runs."""
        ignored = (*self.ignored, *self.unused)
        warnings = (*answer.warnings, *self.warnings)
        return Receipt(answer.entry, self.body.raw, self.residency.options, self.body.read_ns, ignored, warnings)


@dataclass(frozen=True, slots=True)
class Whole:
    """Answers that ran to their ends: who answered, and of each answer its end and its timings."""

    answer: Answer
    finals: list[tuple[Final, Timings]]
    receipt: Receipt

    def finish(self) -> dict[str, Any]:
        """The receipt over all answers."""
        prompt_tokens = sum(
            final.tokens_evaluated for index, (final, _) in enumerate(self.finals) if self.answer.reads_prompt(index)
        )
        return self.receipt.finish(prompt_tokens, sum(timings.predicted_n for _, timings in self.finals))


async def run_whole(run: Run) -> Whole:
    """Run a request to its end.

    Raises:
        What `answers.open_answer` and the engine raise.
    """
    async with open_answer(run.residency, run.entry, run.build, num_ctx=run.num_ctx) as answer:
        receipt = run.receipt(answer)
        finals: list[tuple[Final, Timings]] = []
        async for batch in answer.batches():
            if any(step.token is not None for _, step in batch):
                receipt.token()
            finals += [(step.final, step.timings) for _, step in batch if step.final is not None]
        return Whole(answer, finals, receipt)


class Style(Protocol):
    """How an API shows a stream. Pure: steps in, events out."""

    end: bytes = b""
    """What closes the stream."""

    def text_of(self, index: int, step: Step) -> str:
        """The text this step puts on the wire for prompt `index`; asked once a step, before its events."""
        ...

    def events(self, index: int, step: Step, text: str) -> Iterable[Any]:
        """The events of one step, whose `text_of` is `text`."""
        ...

    def receipt(self, receipt: Mapping[str, Any]) -> Any:
        """The receipt's event."""
        ...

    def encode(self, event: Any) -> bytes:
        """An event on the wire."""
        return sse(event)

    def failure(self, error: Mapping[str, Any]) -> bytes:
        """The end of a stream that fails, on the wire; `error` is llama-server's error object."""
        return sse({"error": error})


async def run_stream(run: Run, style_of: StyleOf) -> AsyncGenerator[bytes, None]:
    """A request's server-sent events: those of each step, the receipt's, the end. For `streams.EventStream`.

    Raises:
        What `answers.open_answer` raises, and the engine when it takes up the first prompt, before the first item; a
        later error is an event, and ends the stream.
    """
    async with open_answer(run.residency, run.entry, run.build, num_ctx=run.num_ctx) as answer:
        receipt, style = run.receipt(answer), style_of(answer)
        prompt_tokens = completion_tokens = 0
        await answer.stream.begun()
        yield b""  # the engine is ours: the client learns that it works
        try:
            async for batch in answer.batches():
                if any(step.token is not None for _, step in batch):
                    receipt.token()
                chunks = []
                for index, step in batch:
                    text = style.text_of(index, step)
                    if text and index == 0:
                        receipt.text(text)
                    chunks += [style.encode(event) for event in style.events(index, step, text)]
                    if step.final is not None:
                        prompt_tokens += step.final.tokens_evaluated if answer.reads_prompt(index) else 0
                        completion_tokens += step.timings.predicted_n
                yield b"".join(chunks)
        except Exception as error:
            log_failure("a stream", error)
            yield style.failure(error_object(error))
            return
        yield style.encode(style.receipt(receipt.finish(prompt_tokens, completion_tokens))) + style.end


class StyleOf(Protocol):
    """Makes the style of one answer."""

    def __call__(self, answer: Answer, /) -> Style: ...
