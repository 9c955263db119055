"""What was verified last: it is told of after its model has gone, too."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from engine.model import Model
from registry.catalog import Entry


@dataclass(frozen=True, slots=True)
class Verification:
    """A file that was hashed and whose header was played.

    Attributes:
        entry: the file.
        at: when it was loaded, Unix time in seconds; no two loads have the same.
        architecture: `general.architecture`.
        name: `general.name`, if the file has one.
        tensor_types: how many tensors have each type, by the types' names, in order.
    """

    entry: Entry
    at: float
    architecture: str
    name: str | None
    tensor_types: Mapping[str, int]

    @classmethod
    def of(cls, entry: Entry, model: Model) -> Verification:
        """That of a model just loaded."""
        name = model.metadata.get("general.name")
        types = dict(sorted(model.tensor_types.items()))
        return cls(entry, time.time(), model.architecture, name if isinstance(name, str) else None, types)
