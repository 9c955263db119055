"""Long bodies are read beside the event loop, in the order they came; short ones on it, but not before the long."""

from __future__ import annotations

import asyncio
import json
import math
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette

from engine.model import ModelOptions
from registry.catalog import Catalog
from server.app import create_app
from server.parse_queue import SHORT, ParseQueue
from server.settings import Settings
from server.wire import anthropic, fields, openai, responses
from server.wire import ollama as wire
from slots.residency import Residency


async def test_a_short_body_is_read_at_once_where_no_long_one_waits() -> None:
    queue = ParseQueue()
    assert await queue.run(SHORT, threading.get_ident) == threading.get_ident()
    assert await queue.run(SHORT + 1, threading.get_ident) != threading.get_ident()
    assert await queue.run(math.inf, threading.get_ident) != threading.get_ident()
    assert await queue.run(SHORT, threading.get_ident) == threading.get_ident()
    queue.close()


async def test_bodies_are_read_in_the_order_they_came_while_the_loop_goes_on() -> None:
    queue, goes_on, read = ParseQueue(), threading.Event(), list[str]()

    def parse(name: str) -> None:
        assert goes_on.wait(60), "the loop stands still"
        read.append(name)

    tasks = [
        asyncio.create_task(queue.run(n_bytes, parse, name))
        for name, n_bytes in (("long", math.inf), ("short", 1), ("longer", SHORT * 9), ("shorter", 0))
    ]
    await asyncio.sleep(0)
    assert not read
    goes_on.set()
    await asyncio.gather(*tasks)
    assert read == ["long", "short", "longer", "shorter"]
    queue.close()


async def test_what_is_wrong_with_a_long_body_is_raised_and_the_next_is_read() -> None:
    queue = ParseQueue()
    with pytest.raises(ValueError, match="invalid literal"):
        await queue.run(math.inf, int, "x")
    assert await queue.run(math.inf, int, "5") == 5
    assert await queue.run(1, threading.get_ident) == threading.get_ident()
    queue.close()


# --- the APIs -----------------------------------------------------------------------------------------------------


@pytest.fixture
async def client(model_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """Speaks to the application without its lifespan: no model is loaded, for what is asked is refused before."""
    app: Starlette = create_app(Settings(), Residency(Catalog.of_file(model_path), ModelOptions(n_ctx=64, n_threads=1)))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        yield client


TOOLS = [{"type": "function", "function": {"name": f"f{n}", "parameters": {"type": "object"}}} for n in range(400)]
ASK = [{"role": "user", "content": "Hi"}]
BAD_SCHEMA = {"type": "object", "properties": {"a": {"type": "nothing"}}}
BODIES: list[tuple[str, Any, str, dict[str, Any]]] = [
    ("/v1/chat/completions", openai, "parse_chat", {"messages": ASK, "tools": TOOLS, "grammar": "x"}),
    ("/v1/responses", responses, "chat_request", {"input": 5, "tools": TOOLS}),
    ("/v1/messages", anthropic, "chat_request", {"tools": TOOLS}),
    ("/api/chat", wire, "parse_chat", {"model": "nobody", "messages": ASK, "tools": TOOLS}),
    ("/api/generate", wire, "parse_generate", {"model": "nobody", "prompt": "x" * SHORT}),
    ("/completion", fields, "json_schema_to_grammar", {"prompt": "x", "json_schema": BAD_SCHEMA}),
    ("/v1/completions", fields, "json_schema_to_grammar", {"prompt": "x", "json_schema": BAD_SCHEMA}),
]


@pytest.mark.parametrize(("path", "module", "name", "body"), BODIES)
async def test_every_api_reads_what_is_long_and_schemas_beside_the_event_loop(
    client: httpx.AsyncClient,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    module: Any,
    name: str,
    body: dict[str, Any],
) -> None:
    parse: Callable[..., Any] = getattr(module, name)
    threads = list[int]()

    def watched(*args: Any, **kwargs: Any) -> Any:
        threads.append(threading.get_ident())
        return parse(*args, **kwargs)

    monkeypatch.setattr(module, name, watched)
    monkeypatch.setattr("server.routes.responses.chat_request", watched if module is responses else parse)
    answer = await client.post(path, content=json.dumps(body), headers={"content-type": "application/json"})
    assert answer.status_code in (400, 404), answer.text
    assert threads
    assert threading.get_ident() not in threads
