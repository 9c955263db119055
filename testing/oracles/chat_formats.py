"""Our answers about chat templates in the shape in which the reference's are kept and compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.chat_formats.formats import ChatFormat
from engine.chat_formats.messages import UnexpectedAnswer
from engine.chat_template import ChatTemplate
from engine.errors import InvalidRequest
from server.errors import ApiError
from server.wire import openai

BOS, EOS = "<s>", "</s>"


def question(template: str, requests: Sequence[Mapping[str, Any]], answers: Sequence[str]) -> dict[str, Any]:
    """What the reference is asked about a template."""
    asked = [{"body": request, "answers": list(answers)} for request in requests]
    return {"template": template, "bos": BOS, "eos": EOS, "requests": asked}


def shaped(answer: Mapping[str, Any], request: Mapping[str, Any]) -> dict[str, Any]:
    """What the reference says of one request, without what follows from the request alone."""
    if "error" in answer:
        return {"error": answer["error"]}
    params = answer["params"]
    grammar = params.get("grammar", "") if params.get("grammar_type") == "tool_calls" else ""
    return {
        "prompt": params["prompt"],
        "generation_prompt": params["generation_prompt"],
        "grammar": grammar,
        **(
            {"triggers": [trigger["value"] for trigger in params["grammar_triggers"]]} if params["grammar_lazy"] else {}
        ),
        "preserved": params["preserved_tokens"],
        "stops": params["stop"],
        "answers": [_pair(*(_message(one) for one in both)) for both in answer["answers"]],
    }


def ours(template: ChatTemplate, request: Mapping[str, Any], answers: Sequence[str]) -> dict[str, Any]:
    """What we say of one request."""
    try:
        form = openai.chat_form(openai.parse_chat(request), template)
    except (ApiError, InvalidRequest) as error:
        return {"error": error.message if isinstance(error, ApiError) else str(error)}
    return {
        "prompt": form.prompt,
        "generation_prompt": form.generation_prompt,
        "grammar": form.grammar,
        **({"triggers": [trigger.value for trigger in form.triggers]} if form.lazy else {}),
        "preserved": list(form.preserved),
        "stops": list(form.stops),
        "answers": [
            _pair(*(_parsed(form, answer, partial=partial) for partial in (True, False))) for answer in answers
        ],
    }


def _parsed(form: ChatFormat, answer: str, *, partial: bool) -> str | list[Any]:
    try:
        message = form.parse(answer, partial=partial)
    except UnexpectedAnswer as error:
        return str(error)
    calls = [[call.name, call.arguments, call.id] for call in message.tool_calls]
    return [message.content, message.reasoning, *([calls] if calls else [])]


def _message(answer: Mapping[str, Any]) -> str | list[Any]:
    if "error" in answer:
        return str(answer["error"])
    calls = answer.get("tool_calls")
    return [answer["content"], answer["reasoning_content"], *([calls] if calls else [])]


def _pair(partly: object, whole: object) -> object:
    """Both as one where they are the same."""
    return partly if partly == whole else {"partly": partly, "whole": whole}
