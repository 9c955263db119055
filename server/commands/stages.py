"""The commands that show one stage of an answer each: `bankml tokenize`, `chat-template` and `generate`.

They say what the server's `/tokenize`, `/apply-template` and `/v1/chat/completions` would, so that a difference can be
found in one stage.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from server.commands.local_model import LocalModel
    from server.routes.chat import ChatRun
    from server.settings import Settings

_MAX: Final = 256  # tokens of an answer
_TOKENIZER_CONTEXT: Final = 512  # tokens: nothing is computed, so no more memory is taken than must be


_MODEL = click.argument("model", metavar="MODEL")


@click.command(short_help="Print the tokens of a text.")
@_MODEL
@click.option("--no-special", is_flag=True, help="Read the texts of special tokens as any text.")
def tokenize(model: str, no_special: bool) -> None:
    """Print the tokens of the text on standard input as one JSON object, as the server's /tokenize answers.

    MODEL is a GGUF file, or a name of the default model or of the folder of models. Exits with 1 when it cannot.
    """
    from server.commands.local_model import exit_codes, opened, printer, standard_input
    from server.settings import load_settings
    from server.wire import llama

    async def tokenized(content: str) -> dict[str, Any]:
        settings = load_settings().model_copy(update={"n_ctx": _TOKENIZER_CONTEXT})
        async with opened(model, settings) as local:
            body = {"content": content, "parse_special": not no_special}
            return llama.tokenize(local.model.tokenizer, body)

    with exit_codes(refused=1):
        said = asyncio.run(tokenized(standard_input()))
    printer()(json.dumps(said) + "\n")


@click.command("chat-template", short_help="Print the prompt of a conversation.")
@_MODEL
def chat_template(model: str) -> None:
    """Print the prompt that the messages on standard input become, as the server's /apply-template answers.

    MODEL is as for tokenize; the messages are a JSON array in OpenAI's form. Models that can think do not, unless
    LLAMA_ARG_REASONING is on. Exits with 2 when there is no prompt.
    """
    from server.commands.local_model import exit_codes, opened, printer, standard_input
    from server.settings import load_settings
    from server.wire.openai import for_prompt

    async def prompt(body: dict[str, Any]) -> str:
        async with opened(model, _without_reasoning(load_settings())) as local:
            return _talk(local, for_prompt(body)).prompt_for(local.model)[0].prompt

    with exit_codes(unreadable=2):
        messages = _messages(standard_input())
        if messages is None:
            raise click.ClickException("the standard input is no JSON array of messages")
        printer()(asyncio.run(prompt({"messages": messages})))


@click.command(short_help="Answer a conversation or a text.")
@_MODEL
@click.option("--max", "n_max", metavar="N", type=click.IntRange(min=1), help=f"Most tokens. (default: {_MAX})")
@click.option("--json", "as_json", is_flag=True, help="Answer with a JSON object.")
@click.option("--sample", is_flag=True, help="Draw the tokens; else each is the likeliest one.")
@click.option("--temp", "temperature", metavar="T", help="With --sample: the temperature.")
@click.option("--top-k", metavar="K", help="With --sample: keep the K likeliest tokens.")
@click.option("--top-p", metavar="P", help="With --sample: keep the likeliest tokens up to this mass.")
@click.option("--min-p", metavar="P", help="With --sample: drop tokens below this share of the likeliest.")
@click.option("--seed", metavar="N", help="With --sample: the seed of the random numbers.")
def generate(model: str, n_max: int | None, as_json: bool, sample: bool, **given: str | None) -> None:
    """Print the answer to what is on standard input: a JSON array of messages, or else the text of one message.

    MODEL is as for tokenize. The answer is the one of the server's /v1/chat/completions, printed as it comes. Models
    that can think do not, unless LLAMA_ARG_REASONING is on. Without flags the draws are as the model file has them.
    Exits with 2 when there is no answer, with 1 when a file cannot be read.
    """
    from server.commands.local_model import exit_codes, opened, printer, standard_input
    from server.settings import load_settings

    draws = {name: value for name, value in given.items() if value is not None}
    if draws and not sample:
        named = next(iter(draws)).replace("temperature", "temp").replace("_", "-")
        raise click.UsageError(f"--{named} needs --sample", click.get_current_context())

    async def answer(body: dict[str, Any], write: Callable[[str], None]) -> None:
        settings = _without_reasoning(load_settings(draws))
        if settings.n_predict == -1:
            settings = settings.model_copy(update={"n_predict": _MAX})
        async with opened(model, settings) as local, aclosing(_contents(local, body)) as pieces:
            async for piece in pieces:
                write(piece)

    with exit_codes():
        text = standard_input()
        messages = _messages(text)
        body: dict[str, Any] = {"messages": [{"role": "user", "content": text}] if messages is None else messages}
        body |= {} if n_max is None else {"max_tokens": n_max}
        body |= {"response_format": {"type": "json_object"}} if as_json else {}
        body |= {} if sample else {"temperature": 0}
        write = printer()
        asyncio.run(answer(body, write))
        write("\n")


def _messages(text: str) -> list[Any] | None:
    """The array that a text is as JSON; None when it is none.

    Raises:
        BadRequest: it is one with too much in it.
    """
    from server.routes.common import parse_json

    if not text.lstrip().startswith("["):
        return None
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return None
    value = parse_json(text.encode())
    return value if isinstance(value, list) else None


def _without_reasoning(settings: Settings) -> Settings:
    """The settings, with reasoning off unless somebody turned it on."""
    return settings.model_copy(update={"reasoning": "off"}) if settings.reasoning == "auto" else settings


def _talk(local: LocalModel, body: dict[str, Any]) -> ChatRun:
    """A chat request to a model in this process. Errors as `ChatRun`."""
    from server.routes.chat import ChatRun
    from server.routes.common import Body

    return ChatRun(local.residency, local.settings, local.entry, Body(b"", body, time.perf_counter_ns()), body)


async def _contents(local: LocalModel, body: dict[str, Any]) -> AsyncGenerator[str, None]:
    """The content of an answer, as it comes.

    Raises:
        ApiError, EngineError, RegistryError: what the server would refuse the request with.
    """
    from server.answers import open_answer

    talk = _talk(local, body)
    async with open_answer(local.residency, local.entry, talk.run.build, num_ctx=talk.run.num_ctx) as answer:
        reader = talk.reader()
        async for step in answer:
            read = reader.add(step.text) if step.send else []
            read += reader.end() if step.final is not None else []
            if content := "".join(delta.content for delta in read):
                yield content
