"""Ask the reference every request of `chat_exchanges` and write its answers, reduced, to `records/chat_answers.json`:
`python -m testing.oracles.record_chat_answers MODEL.gguf`.
"""

from __future__ import annotations

from testing.oracles.chat_exchanges import EXCHANGES, THINKING, THINKING_TEMPLATE, WRAPPED, WRAPPED_TEMPLATE
from testing.oracles.record import RECORDS
from testing.oracles.templated_records import record_templates

RECORD = RECORDS / "chat_answers.json"

if __name__ == "__main__":
    parts = {"thinking": (THINKING_TEMPLATE, THINKING), "wrapped": (WRAPPED_TEMPLATE, WRAPPED)}
    raise SystemExit(record_templates(__doc__, RECORD, EXCHANGES, parts))
