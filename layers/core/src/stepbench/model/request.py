"""What is asked of a store: one request, of a trigger's write or of an operation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from stepbench.contracts.workload import Kind

PROBED = frozenset({Kind.READ, Kind.INSERT})
"""Kinds of request by which a store is asked whether it is ready, whatever the workload's mix."""


class Request(NamedTuple):
    """
    One request, on the record with this key.

    kind: triggers are fired by INSERT and DELETE; operations are of all kinds but DELETE. value: what is written: the
    blob, or a product's `fields` as JSON; a trigger's begins with the event's identity, deletions have it in the key.
    fields: of a product, what is written: all, or those that an update changes. rows: how many records a scan asks for.
    client: whose connection is used. A read has neither value nor fields; those of a read-modify-write are written
    after the read.
    """

    kind: Kind
    key: str
    value: bytes = b""
    fields: Mapping[str, str] | None = None
    rows: int = 0
    client: int = 0
