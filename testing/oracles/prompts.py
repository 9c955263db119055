"""Texts for the recorders: written for this project, the same on every run, cut to any number of tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count, islice

SENTENCES = (
    "The harbour wakes before the town does, and the first lamps are those of the boats.",
    "A ledger has two sides, and a careful clerk writes on both of them before closing the book.",
    "Water boils at a lower temperature on a mountain because less air presses down on it.",
    "My grandmother kept seeds in matchboxes, each with a year and a name in blue pencil.",
    "If you sort a list that is already sorted, a good algorithm notices and stops early.",
    "In 1936, the river rose by 4.2 metres in a single night; nobody in the village slept.",
    "Bread needs flour, water, salt and patience, and only the last of these cannot be bought.",
    "The train to the coast leaves at 07:45 and stops at every station with a clock.",
    "She asked whether the bridge would hold; he answered that it had held for ninety years.",
    "A cache is a promise that yesterday's answer is still good enough for today.",
    "Copper carries electricity well, silver carries it better, and gold does not rust.",
    "Three brothers shared one bicycle, so they learned to plan their days and to run fast.",
    "The function returns zero when the file is empty and minus one when it cannot be opened.",
    "Stars look still because they are far away, not because they do not move.",
    "Every market day the same man sold the same clock, and every evening he carried it home.",
    "To measure a tree without climbing it, compare its shadow with the shadow of a stick.",
    "Rain fell on the tin roof like a hundred small questions nobody wanted to answer.",
    "Loans are paid back in parts: some of each part is interest, the rest is the debt itself.",
    "Bees dance to tell each other where the flowers are, how far, and in which direction.",
    "He wrote the number down twice, once in words and once in figures, as the law required.",
    "The recipe says 250 grams of sugar (about one cup), but half of that is plenty.",
    "An old map is wrong about the roads and right about the hills.",
    "The teacher drew a circle, then asked the class how many corners it had.",
    "When the power failed, the radio went quiet and the crickets took over.",
    "A prime number has exactly two divisors: one and itself; so 91 is not one, for 7 times 13 is 91.",
    "The committee met for five hours and agreed on the date of the next meeting.",
    "Iron ships float because they push aside more water than they weigh.",
    "Nobody had told the dog that the war was over, so it kept guarding the gate.",
    "The library lends books for three weeks, tools for three days, and silence for ever.",
    "If x is larger than y and y is larger than z, then x is larger than z as well.",
    "Fog hid the far shore, and for an hour the lake was as wide as the sea.",
    "They built the school first, the road second, and the town hall when somebody complained.",
)


def passage(start: int = 0) -> Iterator[str]:
    """Sentences without end, beginning with number `start`; each round takes another step, so none repeats a round."""
    index = start
    for position in count(1):
        yield SENTENCES[index % len(SENTENCES)]
        index += 1 + 2 * (position // len(SENTENCES))


def text_of(n_tokens: int, measure: Callable[[str], int], start: int = 0, ending: str = "") -> str:
    """A text for which `measure` says exactly `n_tokens`: sentences of `passage(start)`, cut at a word, then `ending`.

    Args:
        n_tokens: how many tokens the prompt built from the text shall have.
        measure: tokens of the prompt that is built from a text.
        start: the first sentence.
        ending: what the text ends with, such as a question.

    Raises:
        ValueError: no cut and filler gives that number.
    """
    words = " ".join(islice(passage(start), 2 + n_tokens // 8)).split(" ")
    low, high = 0, len(words)
    while low < high:
        middle = (low + high + 1) // 2
        if measure(" ".join(words[:middle]) + ending) <= n_tokens:
            low = middle
        else:
            high = middle - 1
    for keep in range(low, max(-1, low - 8), -1):
        for filler in ("", " and", " and so", " and so on", " and so on,", " and so on, it", " and so on, it is"):
            text = " ".join(words[:keep]) + filler + ending
            if measure(text) == n_tokens:
                return text
    raise ValueError(f"no text of {n_tokens} tokens from sentence {start} with ending {ending!r}")
