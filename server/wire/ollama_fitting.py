"""Which messages of a conversation fit a context, as Ollama has it. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from engine.chat_template import ChatTemplate
from engine.prompt_pieces import Pieces
from engine.tokenizer import Tokenizer
from server.errors import BadRequest
from server.wire import openai

Message = Mapping[str, Any]
T = TypeVar("T")

FEW: Final = 16
"""Up to so many messages are looked at as Ollama does, from the first on: that costs less than to know beforehand."""

MANY: Final = 256
"""More messages are not looked at all together before it is known whether they may fit."""

MAX_READ: Final = 100_000
"""Messages that are read for one conversation at most, each as often as it is read: seconds."""


def fit_messages(
    messages: Sequence[Message],
    limit: int,
    render: Callable[[Sequence[Message]], T],
    count: Callable[[T], int],
    known: Callable[[], int],
) -> tuple[T, int]:
    """The prompt of the messages that fit `limit` tokens, by Ollama's rule: the oldest go first, one at a time, but
    system messages stay, and so does the last message even when it alone does not fit.

    Args:
        messages: the conversation.
        limit: tokens the prompt may have.
        render: makes the prompt of some of the messages.
        count: how many tokens a prompt has.
        known: how many messages have to go at least; see `first_to_try`.

    Returns:
        the prompt of what is left, and how many messages went.

    Raises:
        BadRequest: too much would have to be read to find it out.
        What `render` and `known` raise.
    """
    n_read = first = 0
    is_known = len(messages) <= FEW
    if len(messages) > MANY:
        is_known, first = True, known()
    while True:
        left = _kept(messages, first)
        n_read += len(left)
        if n_read > MAX_READ:
            text = "too many to find out, one by one, which of them fit the context with this model's chat template"
            raise BadRequest(f"the conversation has {len(messages)} messages, {text}: send fewer")
        prompt = render(left)
        if first >= len(messages) - 1 or count(prompt) <= limit:
            return prompt, len(messages) - len(left)
        first += 1
        if not is_known:
            is_known, first = True, max(first, known())


def _kept(messages: Sequence[Message], first: int) -> list[Message]:
    """What is left when the conversation begins with message `first`."""
    return [message for message in messages[:first] if _is_system(message)] + list(messages[first:])


def _is_system(message: Message) -> bool:
    return message.get("role") == "system"


def first_to_try(
    chat: openai.ChatRequest,
    template: ChatTemplate,
    variables: Mapping[str, Any],
    tokenizer: Tokenizer,
    limit: int,
) -> int:
    """How many messages of a conversation must go by what is known without a look at each of the prompts that Ollama
    looks at: those up to it have more than `limit` tokens for sure, and the template refuses none of them.

    Args:
        chat: the whole conversation.
        template, variables, tokenizer: the model's, and the command line's.
        limit: tokens the prompt may have.

    Raises:
        InvalidRequest: the template refuses one of the prompts.
    """
    pieces = openai.prompt_pieces(chat, template, variables)
    if pieces is None:
        return 0
    is_system = list(map(_is_system, chat.messages))
    first = _Counter(tokenizer).first(pieces, is_system, limit, whole=chat.continuation is None)
    first = min(first, pieces.latest + 1, len(is_system) - 1)
    if pieces.template.refuses:
        if pieces.near and sum(is_system[:first]) > FEW:
            return 0
        pieces.check_beginnings(range(1, first), is_system)
    return first


class _Counter:
    """Counts the tokens that a conversation has at least.

    Where a part of a prompt begins with a token that stands apart (`Tokenizer.stands_apart`), its tokens and those of
    what stands before it are counted each for itself. So is the part of each message, or of several together up to the
    next that begins so; and in every prompt that has these messages, other than as its first one, they are the same.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._openings: set[str] = set()

    def first(self, pieces: Pieces, is_system: Sequence[bool], limit: int, *, whole: bool) -> int:
        """The first message from which on the conversation may fit.

        Args:
            is_system: which messages stay when those before them go.
            whole: the last part is all that stands behind the others.
        """
        tokenizer, texts, last = self._tokenizer, pieces.texts, len(pieces.texts) - 1
        if tokenizer.add_bos and not self._apart(tokenizer.bos):  # the template leaves it out
            return 0
        whole = whole and (not tokenizer.add_eos or self._apart(tokenizer.eos))
        stays = set([at for at in range(last) if is_system[at]][1:])  # the first one may come to stand first
        if stays and (pieces.near or not all(not text or self._opens(text) for text in texts[1:])):
            stays.clear()
        n_tokens, end = 0, len(texts)
        for at in stays:
            n_tokens += self._count(texts[at])
            if n_tokens > limit:
                return last
        for at in range(last, 0, -1):
            if not self._opens(texts[at]):
                continue
            if at not in stays and (end <= last or whole):
                n_tokens += self._count("".join(texts[at:end]))
            end = at
            if n_tokens > limit:
                return at
        return 0

    def _count(self, text: str) -> int:
        return len(self._tokenizer.encode(text, add_special=False, parse_special=True))

    def _apart(self, token: int | None) -> bool:
        return token is not None and self._tokenizer.stands_apart(token)

    def _opens(self, text: str) -> bool:
        """A text begins with a token that stands apart."""
        if text.startswith(tuple(self._openings)):
            return True
        tokens = self._tokenizer.encode(text[:_LONG], add_special=False, parse_special=True)
        if not tokens or not self._apart(tokens[0]):
            return False
        opening = self._tokenizer.piece(tokens[0], special=True).decode(errors="replace")
        if text.startswith(opening):
            self._openings.add(opening)
            return True
        return False


_LONG: Final = 256  # characters; no special token of any model has so many
