"""`bankml run [MODEL] [PROMPT]`: talk to a model in the terminal.

A client of Ollama's API and nothing else: it asks the bankML server that runs at the configured address. When none
does, it serves the model itself, on a free loopback port for as long as the talk lasts.
"""

from __future__ import annotations

import io
import json
import os
import socket
import sys
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, TextIO

import httpx

from registry.catalog import Catalog
from server.serve import ServeError, addresses, bind, catalog_of, find_model, open_residency
from server.setting_types import Address
from server.settings import Settings, load_settings

if TYPE_CHECKING:
    import uvicorn

CONNECT_TIMEOUT: Final = 5.0
"""Seconds to wait for a server to take a connection; an answer may take as long as it takes."""

_JSON: Final = {"Content-Type": "application/json"}

HELP: Final = """\
/set system TEXT          set the system message
/set parameter NAME VALUE set an option, such as temperature 0 or num_predict 100
/set verbose | quiet      show what an answer measured, or not
/clear                    forget the conversation
/bye                      leave (or Ctrl-D)
/?                        this help

\"\"\" begins and ends a message of several lines. Ctrl-C stops an answer.
"""


class RunError(Exception):
    """The talk cannot go on; the text is fit for one line on stderr."""


@dataclass(slots=True)
class MessageLines:
    '''Lines typed, put together to messages: one line each, or all from a `"""` to a line that ends in one.'''

    _parts: list[str] = field(default_factory=list)
    open: bool = False

    def push(self, line: str) -> str | None:
        """Take a line without its newline.

        Returns:
            the message it completes, None when there is more to come.
        """
        if not self.open:
            if not line.startswith('"""'):
                return line
            self.open = True
            line = line[3:]
        self._parts.append(line.removesuffix('"""'))
        if not line.endswith('"""'):
            return None
        message = "\n".join(self._parts)
        self.clear()
        return message

    def clear(self) -> None:
        """Forget an unfinished message."""
        self._parts.clear()
        self.open = False


@dataclass(slots=True)
class Talk:
    """A conversation: what was said, and how to ask for more.

    Attributes:
        model: the name to ask for.
        messages: what was said so far, the system message not among it.
        system: the system message, "" for none.
        options: what `/set parameter` set.
        verbose: show what each answer measured.
    """

    model: str
    messages: list[dict[str, str]] = field(default_factory=list)
    system: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    verbose: bool = False

    def request(self) -> dict[str, Any]:
        """The body of the `/api/chat` request for the next answer."""
        system = [{"role": "system", "content": self.system}] if self.system else []
        return {"model": self.model, "messages": system + self.messages, "options": self.options}

    def command(self, line: str) -> str:
        """Obey a line that begins with `/`; `/bye` is not among them.

        Returns:
            what to tell the user.
        """
        match line.split():
            case ["/clear"]:
                self.messages.clear()
                return "Conversation cleared."
            case ["/?" | "/help", *_]:
                return HELP.rstrip()
            case ["/set", "verbose" | "quiet" as word]:
                self.verbose = word == "verbose"
                return f"Set {word}."
            case ["/set", "system", _, *_]:
                self.system = line.split(maxsplit=2)[2].strip('"')
                return "System message set."
            case ["/set", "parameter", "stop", _, *_]:
                self.options["stop"] = line.split()[3:]
                return f"Set stop to {self.options['stop']}."
            case ["/set", "parameter", name, text]:
                self.options[name] = _value(text)
                return f"Set {name} to {text}."
            case ["/set", *_]:
                return HELP.rstrip()
            case [word, *_]:
                return f"Unknown command {word}; /? shows what there is."
        return ""


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


class Client:
    """Ollama's API of one server.

    Args:
        url: its address.
        api_key: sent when it wants one.
    """

    def __init__(self, url: str, api_key: str | None = None) -> None:
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        timeout = httpx.Timeout(None, connect=CONNECT_TIMEOUT)
        self._http = httpx.Client(base_url=url, headers=headers, timeout=timeout, trust_env=False)

    def close(self) -> None:
        """Drop the connections."""
        self._http.close()

    def is_bankml(self) -> bool:
        """Whether a bankML server answers at the address."""
        try:
            answer = self._http.get("/api/version", timeout=CONNECT_TIMEOUT)
            version = answer.json()
        except (httpx.HTTPError, ValueError):
            return False
        # With an API key set, a server tells a stranger nothing; the first question will say what is missing.
        return answer.status_code == 401 or (isinstance(version, dict) and version.get("bankml") is True)

    def default_model(self) -> str:
        """The name of the model that the server lists first.

        Raises:
            RunError: it lists none.
        """
        models = self._json("GET", "/api/tags").get("models") or []
        if not models:
            raise RunError("the server has no model")
        return str(models[0]["name"]).removesuffix(":latest")

    def load(self, model: str) -> None:
        """Have the model loaded.

        Raises:
            RunError: the server has no such model, or cannot be asked.
        """
        self._json("POST", "/api/generate", {"model": model, "stream": False})

    def answer(self, path: str, body: dict[str, Any]) -> Generator[dict[str, Any], None, None]:
        """The objects of a streamed answer. Closing the iterator stops the server.

        Raises:
            RunError: the server refuses, fails, or goes away.
        """
        # What was typed may hold bytes that are no text; the server is told "?" instead.
        content = json.dumps({**body, "stream": True}, ensure_ascii=False).encode("utf-8", "replace")
        try:
            with self._http.stream("POST", path, content=content, headers=_JSON) as response:
                if response.status_code != 200:
                    response.read()
                    raise RunError(_reason(response))
                for line in response.iter_lines():
                    event = json.loads(line)
                    if "error" in event:
                        raise RunError(str(event["error"]))
                    yield event
        except httpx.HTTPError as error:
            raise RunError(f"the server at {self._http.base_url} is gone: {error}") from error

    def _json(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        try:
            response = self._http.request(method, path, json=body)
        except httpx.HTTPError as error:
            raise RunError(f"the server at {self._http.base_url} is gone: {error}") from error
        if response.status_code != 200:
            raise RunError(_reason(response))
        answer: dict[str, Any] = response.json()
        return answer


def _reason(response: httpx.Response) -> str:
    """The text of an error answer, Ollama's or llama-server's."""
    try:
        error = response.json()["error"]
    except (ValueError, KeyError, TypeError):
        return f"the server answered {response.status_code}"
    return str(error.get("message", error) if isinstance(error, dict) else error)


def run(model: str | None, prompt: str | None, *, settings: Settings) -> int:
    """Answer a prompt, or talk until the user leaves.

    Args:
        model: a name the server knows, or a GGUF file; None for the server's default.
        prompt: what to answer. What is piped in goes before it.
        settings: where the server is, or how to run one.

    Returns:
        the exit status: 0; 1 when an answer failed; 2 when the model file cannot be used; 130 when the user stopped
        the answer to a prompt.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that cannot show a character is no reason to stop
    try:
        prompt = _with_piped(prompt)
        with ExitStack() as stack:
            client, model = _connect(stack, model, settings)
            if prompt is not None or not sys.stdout.isatty():
                return _answer_once(client, model, prompt or "")
            client.load(model)
            _talk(client, Talk(model))
    except (RunError, ServeError) as error:
        print(f"bankml: {error}", file=sys.stderr)
        return 1 if isinstance(error, RunError) else 2
    except BrokenPipeError:  # whoever read our answer has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return 130
    return 0


def _with_piped(prompt: str | None) -> str | None:
    """The prompt with what is piped in before it; None when there is neither and the user can type."""
    if sys.stdin is None or sys.stdin.isatty():
        return prompt
    piped = sys.stdin.buffer.read().decode("utf-8", "replace")
    return " ".join(part for part in (piped, prompt) if part)


def _connect(stack: ExitStack, model: str | None, settings: Settings) -> tuple[Client, str]:
    """A client of the running server, or of one of our own, and the name of the model there.

    A model file, and flags that decide what an answer is, ask for a server of our own; variables may be meant for the
    server that runs.
    """
    if model is not None and (file := _as_file(model)) is not None:
        settings, model = settings.model_copy(update={"model": file}), None
    environment = load_settings()
    deciding = ("model", "n_ctx", "n_predict", "sampling")
    if all(getattr(settings, name) == getattr(environment, name) for name in deciding):
        client = Client(server_url(settings), settings.api_keys[0] if settings.api_keys else None)
        stack.callback(client.close)
        if client.is_bankml():
            return client, model or client.default_model()
    client = Client(stack.enter_context(_own_server(settings)))
    stack.callback(client.close)
    return client, model or client.default_model()


def _as_file(model: str) -> Path | None:
    """The file that MODEL means, if it is written as a path or names a GGUF file that is there."""
    path = Path(os.path.expanduser(model))
    written_as_path = model.startswith(("/", "./", "../", "~"))
    return path if written_as_path or (model.lower().endswith(".gguf") and path.is_file()) else None


def server_url(settings: Settings) -> str:
    """Where the configured server is to be reached: an address that means every one is reached at loopback."""
    host, port = settings.addresses[0]
    host = host.strip("[]")
    host = {"0.0.0.0": "127.0.0.1", "::": "::1", "*": "127.0.0.1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@contextmanager
def _own_server(settings: Settings) -> Iterator[str]:
    """A server in this process, in a thread of its own, on a free loopback port; its address.

    Raises:
        ServeError: the model cannot be used.
    """
    settings = settings.model_copy(update={"listen": Address("127.0.0.1", 0), "upstream": None, "api_keys": ()})
    catalog = catalog_of(settings, find_model(settings))
    sockets = bind(settings)
    life = _Life()
    thread = Thread(target=_serve_in_thread, args=(settings, catalog, sockets, life), name="bankml-server")
    thread.start()
    try:
        life.ready.result()
        yield addresses(sockets)[0]
    finally:
        life.end()
        thread.join()
        for sock in sockets:
            sock.close()


class _Life:
    """A server in another thread: when it is ready, and when it must end."""

    def __init__(self) -> None:
        self.ready: Future[None] = Future()
        self._server: uvicorn.Server | None = None
        self._over = False

    def begin(self, server: uvicorn.Server) -> None:
        """The server is about to serve."""
        self._server = server
        server.should_exit = self._over
        self.ready.set_result(None)

    def end(self) -> None:
        """Stop the server, be it only about to begin."""
        self._over = True
        if self._server is not None:
            self._server.should_exit = True


def _serve_in_thread(settings: Settings, catalog: Catalog, sockets: list[socket.socket], life: _Life) -> None:
    """Serve until the end of `life`; an error on the way to the beginning becomes that of `life.ready`."""
    import uvloop

    from server.http_server import HttpServer

    async def serve() -> None:
        residency = await open_residency(settings, catalog)
        server = HttpServer(settings, residency)
        for sock in sockets:
            sock.listen()  # who connects now waits until the server takes it
        life.begin(server)
        await server.serve(sockets=sockets)

    try:
        uvloop.run(serve())
    except BaseException as error:
        if life.ready.done():
            raise
        life.ready.set_exception(error)


def _answer_once(client: Client, model: str, prompt: str) -> int:
    """Answer one prompt on stdout."""
    if not prompt:
        client.load(model)
        return 0
    for event in client.answer("/api/generate", {"model": model, "prompt": prompt}):
        print(event["response"], end="", flush=True)
    print(flush=True)
    return 0


def _talk(client: Client, talk: Talk, read: Callable[[str], str] = input, out: TextIO | None = None) -> None:
    """Read messages and answer them until `/bye` or the end of input."""
    with suppress(ImportError):
        import readline  # noqa: F401 - gives `input` its line editing
    out = out or sys.stdout
    lines = MessageLines()
    while True:
        try:
            line = read("... " if lines.open else ">>> ")
        except EOFError:
            print(file=out)
            return
        except KeyboardInterrupt:
            lines.clear()
            print("\nCtrl-D or /bye to leave.", file=out)
            continue
        if not lines.open and line.startswith("/"):
            if line.split()[0] in ("/bye", "/exit"):
                return
            print(talk.command(line), file=out)
            continue
        message = lines.push(line)
        if message is not None and message.strip():
            _answer(client, talk, message, out)


def _answer(client: Client, talk: Talk, message: str, out: TextIO) -> None:
    """Answer a message of a talk. Ctrl-C stops the answer; what was said until then counts as said."""
    talk.messages.append({"role": "user", "content": message})
    said: list[str] = []
    measured: dict[str, Any] = {}
    events = client.answer("/api/chat", talk.request())
    try:
        for event in events:
            said.append(event["message"]["content"])
            measured = event
            print(said[-1], end="", file=out, flush=True)
    except KeyboardInterrupt:
        pass
    except RunError as error:
        print(f"bankml: {error}", file=sys.stderr)
    finally:
        events.close()
    print("\n", file=out)
    text = "".join(said)
    if text:
        talk.messages.append({"role": "assistant", "content": text})
    else:
        talk.messages.pop()
    if dropped := measured.get("bankml_truncated"):
        print(f"The {dropped} oldest messages did not fit the context and were left out.", file=sys.stderr)
    if talk.verbose and measured.get("done"):
        print(summary(measured), file=sys.stderr)


def summary(measured: dict[str, Any]) -> str:
    """What an answer measured, for people: one line a figure."""
    rows = [("total duration", f"{measured['total_duration'] / 1e9:.3f} s")]
    rows.append(("load duration", f"{measured['load_duration'] / 1e9:.3f} s"))
    computed = measured["prompt_eval_count"] - measured.get("bankml_cache_n", 0)
    rows.append(("prompt tokens", f"{measured['prompt_eval_count']} ({computed} computed)"))
    if measured["prompt_eval_duration"]:
        rows.append(("prompt rate", f"{computed / measured['prompt_eval_duration'] * 1e9:.2f} tokens/s"))
    rows.append(("answer tokens", str(measured["eval_count"])))
    if measured["eval_duration"]:
        rows.append(("answer rate", f"{measured['eval_count'] / measured['eval_duration'] * 1e9:.2f} tokens/s"))
    return "\n".join(f"{name + ':':16}{value}" for name, value in rows)
