"""Writes engine/kernels/unicode_table.inc: the class every code point has for the pre-tokenizers.

The reference's tables are those of Unicode 15.1, which is what Python 3.13's `unicodedata` holds; another version would
give another table, so this refuses to run under another Python. Run it from the project root:

    python3.13 scripts/make_unicode_tables.py
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path

UNICODE_VERSION = "15.1.0"
TARGET = Path(__file__).parent.parent / "engine" / "kernels" / "unicode_table.inc"

# As CharClass in pretokenizer.h.
LETTER, NUMBER, MARK, PUNCTUATION, SYMBOL, SPACE, OTHER = (1 << bit for bit in range(7))
BY_CATEGORY = {"L": LETTER, "N": NUMBER, "M": MARK, "P": PUNCTUATION, "S": SYMBOL}
# str.isspace counts these four separators, the White_Space property does not.
NOT_SPACE = range(0x1C, 0x20)


def char_class(code: int) -> int:
    """The class of one code point; white space first, as its categories are C and Z."""
    char = chr(code)
    if char.isspace() and code not in NOT_SPACE:
        return SPACE
    return BY_CATEGORY.get(unicodedata.category(char)[0], OTHER)


def runs() -> Iterator[tuple[int, int]]:
    """(first code point, class) of each run of code points of one class."""
    last = -1
    for code in range(sys.maxunicode + 1):
        found = char_class(code)
        if found != last:
            yield code, found
            last = found


def main() -> None:
    if unicodedata.unidata_version != UNICODE_VERSION:
        raise SystemExit(f"needs Unicode {UNICODE_VERSION} (Python 3.13), not {unicodedata.unidata_version}")
    words = [f"0x{start << 8 | found:x}," for start, found in runs()]
    lines = ["// Written by scripts/make_unicode_tables.py: first code point << 8 | class, for each run of one class."]
    for word in words:
        if len(lines) == 1 or len(lines[-1]) + len(word) > 120:
            lines.append("")
        lines[-1] += word
    TARGET.write_text("\n".join(lines) + "\n")
    print(f"{TARGET}: {len(words)} runs")


if __name__ == "__main__":
    main()
