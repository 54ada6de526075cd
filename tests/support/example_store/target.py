"""What a plan may say of the example store, and what the store has."""

from __future__ import annotations

from typing import ClassVar, Literal

from stepbench.contracts.target import StoreTarget
from stepbench.contracts.workload import Kind


class ExampleTarget(StoreTarget):
    """A server of lines on loopback, watched by prefix."""

    store: Literal["example"] = "example"
    title: ClassVar = "Example store"
    trigger: ClassVar = "pull"
    mechanism: ClassVar = "WATCH by prefix, held by WatchChanges"
    deletes: ClassVar = True
    filters: ClassVar = "key"
    operations: ClassVar = frozenset({Kind.READ, Kind.INSERT, Kind.OVERWRITE})
