"""What Ollama says a model can do, from its file. Pure functions.

The rules are those of Ollama's `server/images.go` for a GGUF file that brings its own chat template; whether a gap can
be filled is told from the vocabulary, for no such template says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from registry.names import ModelName
from server.errors import BadRequest
from server.wire.golang import quote


def supports_tools(template: str) -> bool:
    """Whether a chat template knows tools."""
    return "tools" in template or "tool_call" in template


def supports_thinking(template: str) -> bool:
    """Whether a chat template knows reasoning: by its markers, or because it cuts earlier reasoning off."""
    if "<think>" in template and "</think>" in template:
        return True
    cuts = "content.split('</think>')" in template or 'content.split("</think>")' in template
    return cuts and "reasoning_content" not in template and "<SPECIAL_12>" not in template


def capabilities(template: str, *, pools: bool, fills_gaps: bool) -> list[str]:
    """The `capabilities` of `/api/show`, in Ollama's order.

    Args:
        template: the file's chat template, "" for none.
        pools: the file names a pooling: it is for embeddings, and not for answers.
        fills_gaps: the vocabulary has the tokens that mark a gap.
    """
    found = ["tools"] if supports_tools(template) else []
    found += ["thinking"] if supports_thinking(template) else []
    found.append("embedding" if pools else "completion")
    return found + (["insert"] if fills_gaps else [])


class Wanted(Protocol):
    """What a request for an answer wants of a model; see `ollama.Request`."""

    @property
    def api(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def think(self) -> bool | str | None: ...
    @property
    def tools(self) -> Sequence[object]: ...
    @property
    def suffix(self) -> str: ...


def check(wanted: Wanted, template: str, *, pools: bool, fills_gaps: bool) -> None:
    """Make sure that a model can do what is asked, by Ollama's rules, in its order and its words.

    Args:
        template, pools, fills_gaps: as of `capabilities`.

    Raises:
        BadRequest: it cannot.
    """
    if wanted.think and not supports_thinking(template):
        raise BadRequest(lacking(wanted.model, "thinking"))
    if pools:
        raise BadRequest(lacking(wanted.model, wanted.api))
    if wanted.tools and not supports_tools(template):
        raise BadRequest(incapable(wanted.model, "tools"))
    if wanted.suffix and not fills_gaps:
        raise BadRequest(incapable(wanted.model, "insert"))


def lacking(model: str, what: str) -> str:
    """Ollama's words for a model that cannot do what is asked, its name as the client wrote it."""
    return f"{quote(model)} does not support {what}"


def incapable(model: str, what: str) -> str:
    """Ollama's words where it looks for a capability, which have the model's whole name."""
    return f"{ModelName.parse(model).full} does not support {what}"
