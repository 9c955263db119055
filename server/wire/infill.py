"""llama-server's `/infill`: what stands before and after a gap becomes the prompt of a model that fills gaps.

The order of the tokens is that of `format_prompt_infill` (server-common.cpp): the repository's name, other files, this
file's name, then prefix, suffix and the marker of the middle; with `spm_infill` the suffix goes first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from engine.tokenizer import Tokenizer
from server.errors import ApiError, BadRequest
from server.wire.golang import as_text
from server.wire.llama import tokenize_mixed

KNOWN: Final = frozenset({"prompt", "model", "message_delimiters", "input_prefix", "input_suffix", "input_extra"})
"""Fields of an infill request that are not completion fields."""

_ROLES: Final = {"prefix": "fim_pre", "suffix": "fim_suf", "middle": "fim_mid"}
_BETWEEN_FILES: Final = "\n\n--- snippet ---\n\n"


@dataclass(frozen=True, slots=True)
class InfillRequest:
    """The part of a request that becomes the prompt.

    Attributes:
        prefix, suffix: what stands before and after the gap: a text, or a list of texts and token ids.
        extra: other files, (name, text) each.
        prompt: the beginning of what fills the gap.
        ignored: fields that were accepted and change nothing.
    """

    prefix: Any
    suffix: Any
    extra: tuple[tuple[str, str], ...]
    prompt: str
    ignored: tuple[str, ...]


def require_markers(tokenizer: Tokenizer) -> None:
    """Make sure that the vocabulary has the tokens that mark a gap.

    Raises:
        ApiError: it has not; the text is llama-server's.
    """
    if missing := missing_markers(tokenizer):
        what = "".join(f"{name} token is missing. " for name in missing)
        raise ApiError(501, f"Infill is not supported by this model: {what}")


def missing_markers(tokenizer: Tokenizer) -> list[str]:
    """The names of the markers of a gap that the vocabulary lacks."""
    return [name for name, role in _ROLES.items() if getattr(tokenizer.special, role) is None]


def gap_prompt(prefix: str, suffix: str, tokenizer: Tokenizer) -> str:
    """The prompt of one file with a gap as text, nothing left out: what Ollama's templates for such models write.

    Raises:
        ApiError: the vocabulary lacks a marker.
    """
    require_markers(tokenizer)
    special = tokenizer.special
    before, behind, middle = (
        as_text(tokenizer.piece(_required(token), special=True))
        for token in (special.fim_pre, special.fim_suf, special.fim_mid)
    )
    return f"{before}{prefix}{behind}{suffix}{middle}"


def parse_infill(body: Mapping[str, Any]) -> InfillRequest:
    """A request's body. A prompt that is no text counts as none, as in llama-server.

    Raises:
        BadRequest: the extra files are not what they should be, or one of the two sides is missing.
    """
    extra = body.get("input_extra", [])
    if not isinstance(extra, list):
        raise BadRequest('"input_extra" must be an array of {"filename": string, "text": string}')
    files = tuple(_file(chunk) for chunk in extra)
    for name in ("input_prefix", "input_suffix"):
        if name not in body:
            raise BadRequest(f"[json.exception.out_of_range.403] key '{name}' not found")
    prompt = body.get("prompt", "")
    is_text = isinstance(prompt, str)
    ignored = () if is_text else ("prompt",)
    return InfillRequest(body["input_prefix"], body["input_suffix"], files, prompt if is_text else "", ignored)


def _file(chunk: Any) -> tuple[str, str]:
    text = chunk.get("text") if isinstance(chunk, dict) else None
    if not isinstance(text, str):
        raise BadRequest('extra_context chunk must contain a "text" field with a string value')
    name = chunk.get("filename", "tmp")
    if not isinstance(name, str):
        raise BadRequest('extra_context chunk\'s "filename" field must be a string')
    return name, text


def infill_prompt(
    request: InfillRequest, tokenizer: Tokenizer, *, n_batch: int, n_predict: int, n_ctx: int, suffix_first: bool
) -> list[int]:
    """The prompt's tokens.

    Of the prefix its end is kept, of the suffix its beginning: three quarters and one quarter of a batch. What other
    files have room for is the rest of the context.

    Args:
        n_batch, n_predict, n_ctx: the server's batch size, limit of an answer (-1 for none) and context.
        suffix_first: `--spm-infill`.

    Raises:
        ApiError: the vocabulary lacks a marker.
        BadRequest: a side is neither a text nor a list of texts and token ids.
    """
    require_markers(tokenizer)
    special = tokenizer.special
    prefix, suffix = _side(tokenizer, request.prefix), _side(tokenizer, request.suffix)
    begun = tokenizer.encode(request.prompt, add_special=False, parse_special=True)
    extra = _extra(tokenizer, request.extra)
    quarter = n_batch // 4
    n_prefix = min(len(prefix), 3 * quarter)
    n_suffix = min(len(suffix), max(0, quarter - (2 + len(begun))))
    n_extra = min(len(extra), max(0, n_ctx - n_batch - 2 * n_predict))
    before = [_required(special.fim_pre), *prefix[len(prefix) - n_prefix :], *begun]
    after = [_required(special.fim_suf), *suffix[:n_suffix]]
    halves = (after, before) if suffix_first else (before, after)
    start = [tokenizer.bos] if tokenizer.add_bos and tokenizer.bos is not None else []
    return [*extra[len(extra) - n_extra :], *start, *halves[0], *halves[1], _required(special.fim_mid)]


def _required(token: int | None) -> int:
    assert token is not None  # `require_markers`
    return token


def _side(tokenizer: Tokenizer, content: Any) -> list[int]:
    try:
        return tokenize_mixed(tokenizer, content, add_special=False, parse_special=False)
    except ValueError as error:
        raise BadRequest(str(error)) from None


def _extra(tokenizer: Tokenizer, files: Sequence[tuple[str, str]]) -> list[int]:
    def plain(text: str) -> list[int]:
        return tokenizer.encode(text, add_special=False, parse_special=False)

    special = tokenizer.special
    tokens = [] if special.fim_rep is None else [special.fim_rep, *plain("myproject\n")]
    for name, text in files:
        if special.fim_sep is None:
            tokens += plain(_BETWEEN_FILES)
        else:
            tokens += [special.fim_sep, *plain(f"{name}\n")]
        tokens += plain(text)
    if special.fim_sep is not None:
        tokens += [special.fim_sep, *plain("filename\n")]
    return tokens
