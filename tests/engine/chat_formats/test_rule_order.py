"""The order of the reference's map of rules."""

from __future__ import annotations

from engine.chat_formats.rule_order import map_order

PUT_IN = (
    *("space", "tool-weather", "tool-now", "json-value", "json-object", "until-suffix", "tool-call"),
    *("tool-weather-arg-city", "tool-weather-arg-days", "json-array", "json-string", "json-number", "json-bool"),
    *("json-null", "tool-calls", "résumé"),
)
GONE_THROUGH = (
    *("tool-calls", "json-null", "space", "tool-weather-arg-days", "tool-weather", "résumé", "tool-now", "json-value"),
    *("json-object", "until-suffix", "tool-weather-arg-city", "json-string", "json-array", "json-number", "tool-call"),
    "json-bool",
)
"""As `std::unordered_map<std::string, size_t>` of GCC 12 goes through them."""


def test_names_come_in_the_maps_order() -> None:
    assert tuple(map_order(PUT_IN)) == GONE_THROUGH


def test_every_name_comes_once_however_many_there_are() -> None:
    names = [f"tool-{number}" for number in range(500)]
    assert sorted(map_order(names)) == sorted(names)
    assert map_order([]) == []
