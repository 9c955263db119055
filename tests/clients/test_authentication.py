"""Keys as the clients send them: OpenAI's in `Authorization`, Anthropic's in `X-Api-Key`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import openai
import pytest

from testing.server_process import BankmlServer

ASK: list[Any] = [{"role": "user", "content": "Say hi."}]


@pytest.fixture(scope="module")
def locked(start_server: Callable[..., BankmlServer]) -> Iterator[BankmlServer]:
    """A server that asks for a key."""
    with start_server("--api-key", "secret") as process:
        yield process


def test_anthropics_client(locked: BankmlServer) -> None:
    with anthropic.Anthropic(base_url=locked.url, api_key="secret", max_retries=0) as sdk:
        assert sdk.messages.create(model="any", max_tokens=1, messages=ASK).usage.output_tokens == 1
    with anthropic.Anthropic(base_url=locked.url, api_key="guess", max_retries=0) as sdk:
        with pytest.raises(anthropic.AuthenticationError, match="Invalid API Key"):
            sdk.messages.create(model="any", max_tokens=1, messages=ASK)
        with pytest.raises(anthropic.AuthenticationError, match="Invalid API Key"):
            sdk.messages.count_tokens(model="any", messages=ASK)


def test_openais_client(locked: BankmlServer) -> None:
    with openai.OpenAI(base_url=f"{locked.url}/v1", api_key="secret", max_retries=0) as sdk:
        assert sdk.responses.create(model="any", input="Say hi.", max_output_tokens=1).output_text
    with openai.OpenAI(base_url=f"{locked.url}/v1", api_key="guess", max_retries=0) as sdk:
        with pytest.raises(openai.AuthenticationError, match="Invalid API Key"):
            sdk.chat.completions.create(model="any", messages=ASK)
        with pytest.raises(openai.AuthenticationError, match="Invalid API Key"):
            sdk.responses.create(model="any", input="Say hi.", stream=True)
