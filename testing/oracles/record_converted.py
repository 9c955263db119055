"""Ask the reference every request of `converted_exchanges` and write its answers, reduced, to `records/converted.json`:
`python -m testing.oracles.record_converted MODEL.gguf`.
"""

from __future__ import annotations

from testing.oracles.chat_exchanges import THINKING_TEMPLATE
from testing.oracles.converted_exchanges import CALLING, CALLING_TEMPLATE, EXCHANGES, THINKING
from testing.oracles.record import RECORDS
from testing.oracles.templated_records import record_templates

RECORD = RECORDS / "converted.json"

if __name__ == "__main__":
    parts = {"thinking": (THINKING_TEMPLATE, THINKING), "calling": (CALLING_TEMPLATE, CALLING)}
    raise SystemExit(record_templates(__doc__, RECORD, EXCHANGES, parts))
