"""`bankml run [MODEL] [PROMPT]`: talk to a model in the terminal.

A client of Ollama's API and nothing else: it asks the bankML server that runs at the configured address. When none
does, it serves the model itself, on a free loopback port for as long as the talk lasts.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import orjson

from server.commands.address import server_url, url_of
from server.commands.client import Client, ClientError
from server.commands.display import AnswerView, summary
from server.commands.errors import CommandError
from server.commands.local_model import as_file
from server.commands.pulling import pull
from server.commands.session import Session, format_of, think_of
from server.commands.talk import Talk, load, stream_answer
from server.durations import go_duration
from server.settings import Settings, load_settings


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Ollama's flags of `run`, as they were given.

    Attributes:
        keepalive: a duration of Go's; "" when not given.
        format: `json`, a JSON schema, or "".
        think: the text of `--think`; None when not given.
        hidethinking: do not show reasoning.
        verbose: show what an answer measured.
        nowordwrap: leave lines as they come.
        insecure: a model that has to be pulled may come over plain HTTP.
        truncate: of an embedding model: cut a text that is too long; None when not given.
        dimensions: of an embedding model: how many numbers, 0 for all.
    """

    keepalive: str = ""
    format: str = ""
    think: str | None = None
    hidethinking: bool = False
    verbose: bool = False
    nowordwrap: bool = False
    insecure: bool = False
    truncate: bool | None = None
    dimensions: int = 0

    def session(self) -> Session:
        """A session with these settings.

        Raises:
            CommandError: one has a value it cannot have.
        """
        if self.format:
            format_of(self.format)
        if self.keepalive:
            try:
                go_duration(self.keepalive)
            except ValueError as error:
                raise CommandError(str(error)) from None
        return Session(
            model="",
            format=self.format,
            think=None if self.think is None else think_of(self.think),
            think_given=self.think is not None,
            keep_alive=self.keepalive,
            verbose=self.verbose,
            wordwrap=not self.nowordwrap,
            hide_thinking=self.hidethinking,
        )


def run(model: str | None, words: Sequence[str], *, settings: Settings, options: RunOptions) -> int:
    """Answer a prompt, or talk until the user leaves.

    Args:
        model: a name the server knows, or a GGUF file; None for the server's default.
        words: what to answer. What is piped in goes before it.
        settings: where the server is, or how to run one.
        options: Ollama's flags.

    Returns:
        the exit status: 0; 1 when nobody reads the answer; 130 when the user stopped the answer to a prompt.

    Raises:
        CommandError: an answer failed, or a flag has a value it cannot have.
        ServeError: the model file cannot be used.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that cannot show a character is no reason to stop
    session = options.session()
    try:
        prompt = _with_piped(words)
        with ExitStack() as stack:
            client, model = _connect(stack, model, settings)
            shown = _show_or_pull(client, model, options.insecure)
            session.adopt(model, shown)
            if "embedding" in (shown.get("capabilities") or []) and "completion" not in shown["capabilities"]:
                return _embed(client, session, prompt, options)
            if prompt is not None or not sys.stdout.isatty():
                return _answer_once(client, session, prompt or "")
            load(client, session)
            _talk(client, session)
    except BrokenPipeError:  # whoever read our answer has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return 130
    return 0


def _with_piped(words: Sequence[str]) -> str | None:
    """The prompt with what is piped in before it; None when there is neither and the user can type."""
    if sys.stdin is None or sys.stdin.isatty():
        return " ".join(words) if words else None
    piped = sys.stdin.buffer.read().decode("utf-8", "replace")
    return " ".join([piped, *words] if piped else words)


def _connect(stack: ExitStack, model: str | None, settings: Settings) -> tuple[Client, str]:
    """A client of the running server, or of one of our own, and the name of the model there.

    A model file, and flags that decide what an answer is, ask for a server of our own; variables may be meant for the
    server that runs.
    """
    if model is not None and (file := as_file(model)) is not None:
        settings, model = settings.model_copy(update={"model": file}), None
    environment = load_settings()
    deciding = ("model", "n_ctx", "n_predict", "sampling")
    if all(getattr(settings, name) == getattr(environment, name) for name in deciding):
        moved = settings.addresses != environment.addresses  # by a flag
        url = url_of(*settings.addresses[0]) if moved else server_url()
        client = stack.enter_context(Client(url, settings.api_keys[0] if settings.api_keys else None))
        if client.is_bankml():
            return client, model or client.default_model()
    from server.commands.own_server import own_server

    client = stack.enter_context(Client(stack.enter_context(own_server(settings))))
    return client, model or client.default_model()


def _show_or_pull(client: Client, model: str, insecure: bool) -> dict[str, Any]:
    """What the server says of a model, which is pulled first when it is not there.

    Raises:
        ClientError: it cannot be had.
    """
    try:
        return client.show(model)
    except ClientError as error:
        if not error.not_found:
            raise
        missing = error
    try:
        pull(client, model, insecure=insecure)
    except ClientError as error:
        if error.status not in (400, 403, 501):
            raise
        # This server pulls nothing: that the model is not there is what there is to say.
        raise ClientError(str(missing), missing.status) from error
    return client.show(model)


def _answer_once(client: Client, session: Session, prompt: str) -> int:
    """Answer one prompt on stdout; load the model when there is none."""
    if not prompt:
        load(client, session)
        return 0
    view = AnswerView(sys.stdout, wordwrap=session.wordwrap, hide_thinking=session.hide_thinking)
    measured = stream_answer(client, "/api/generate", {**session.request(), "prompt": prompt}, view)
    view.end_thinking()
    print("\n", flush=True)
    if session.verbose:
        print(summary(measured), file=sys.stderr)
    return 0


def _embed(client: Client, session: Session, prompt: str | None, options: RunOptions) -> int:
    """The embedding of a prompt, as a JSON array on stdout."""
    if not prompt:
        name = session.model
        raise CommandError(f'embedding models require input text. Usage: bankml run {name} "your text here"')
    request: dict[str, Any] = {"model": session.model, "input": prompt}
    if session.keep_alive:
        request["keep_alive"] = session.request()["keep_alive"]
    if options.truncate is not None:
        request["truncate"] = options.truncate
    if options.dimensions > 0:
        request["dimensions"] = options.dimensions
    embeddings = client.post("/api/embed", request).get("embeddings")
    if not embeddings:
        raise CommandError("no embeddings returned")
    print(orjson.dumps(embeddings[0]).decode())
    return 0


def _talk(client: Client, session: Session) -> None:
    """Read messages and answer them until `/bye` or the end of input."""
    from server.commands.editor import LineEditor

    for message in session.loaded:
        if message.get("role") == "user":
            print(f">>> {message.get('content', '')}")
        elif message.get("role") == "assistant":
            AnswerView(sys.stdout, wordwrap=session.wordwrap, hide_thinking=True).add("", message.get("content", ""))
            print("\n")
    editor = LineEditor()
    talk = Talk(client, session, editor.history)
    while True:
        try:
            line = editor.read(more=talk.more)
        except EOFError:
            print()
            return
        except KeyboardInterrupt:
            talk.interrupted()
            continue
        try:
            if not talk.line(line):
                return
        except KeyboardInterrupt:
            print()
