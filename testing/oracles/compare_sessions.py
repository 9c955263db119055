"""Sessions at random, asked of llama-server and of us: what is reused, and what is answered."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence

from registry.download import ensure
from testing.oracles.comparison import Report
from testing.oracles.reference_server import ReferenceServer
from testing.oracles.session_cases import CONTEXT, random_session, run
from testing.server_process import BankmlServer, ServerProcess

_N_STEPS = 150
_FLAGS: Mapping[str, Sequence[str]] = {
    "default": (),
    "cache-ram-2": ("--cache-ram", "2"),
    "cache-ram-4": ("--cache-ram", "4"),
    "no-limit": ("--cache-ram", "-1"),
    "none": ("--cache-ram", "0"),
    "sps-0": ("-sps", "0", "--cache-ram", "4"),
    "sps-0.6": ("-sps", "0.6", "--cache-ram", "4"),
    "q8_0": ("-ctk", "q8_0", "-ctv", "q8_0", "--cache-ram", "2"),
}


def compare(report: Report, only: Sequence[str]) -> None:
    """Compares the settings, or the named ones."""
    model = ensure()[0]
    for number, (name, flags) in enumerate(_FLAGS.items()):
        if only and name not in only:
            continue
        session = random_session(100 + number, _N_STEPS, *CONTEXT, *flags, files=True)
        with report.group("sessions", name, "-") as group:
            asked = []
            for server_class in (ReferenceServer, BankmlServer):
                with tempfile.TemporaryDirectory() as folder:
                    server: ServerProcess = server_class(model, *session.flags, "--slot-save-path", folder)
                    with server:
                        asked.append(run(session, server))
            for index, (expected, found) in enumerate(zip(*asked, strict=True)):
                if found == expected:
                    group.identical += 1
                else:
                    group.fail(f"step {index}, {session.steps[index]}", f"{found} for {expected}")
