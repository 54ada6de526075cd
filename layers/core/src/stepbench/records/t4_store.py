"""Where t4 items go: the results table, or the bucket while the table is down."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from stepbench.errors import RecordsUnavailableError
from stepbench.records import layout
from stepbench.records.t4 import encode_fallback

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stepbench.records.run_store import RunStore
    from stepbench.records.trial_table import TrialTable

    PutT4 = Callable[[str, str, int, dict[str, Any]], None]
    """`TrialTable.put_t4`, or something faster: (tag, request id, t4_ns, attributes)."""


class T4Store:
    """Keeps t4 items and malformed events in one of two places; `put` may be a faster `TrialTable.put_t4`."""

    def __init__(self, table: TrialTable, runs: RunStore, put: PutT4 | None = None) -> None:
        self._table = table
        self._runs = runs
        self._put = put or table.put_t4

    def put(self, tag: str, request_id: str, t4_ns: int, item: dict[str, Any]) -> None:
        """
        Keep one item.

        Raises:
            RecordsUnavailableError: neither table nor bucket took it.
        """
        try:
            self._put(tag, request_id, t4_ns, item)
        except RecordsUnavailableError:
            body = encode_fallback(layout.t4_sk(request_id, t4_ns), item)
            self._runs.put_bytes(layout.t4_fallback_key(tag, request_id, t4_ns), body, "application/json")

    def put_malformed(self, store: str, t4_ns: int, request_id: str, place: int, body: str) -> None:
        """
        Keep an event that names nothing.

        Raises:
            RecordsUnavailableError: neither table nor bucket took it.
        """
        try:
            self._table.put_malformed(store, t4_ns, request_id, place, body)
        except RecordsUnavailableError:
            key = layout.malformed_fallback_key(store, t4_ns, request_id, place)
            self._runs.put_bytes(key, body.encode(), "text/plain")


def low_level_put(client: Any, table: str, ttl_days: int) -> PutT4:  # noqa: ANN401 -- a boto3 DynamoDB client
    """`TrialTable.put_t4` over a plain client: no resource layer and no validation in a receiver's way."""
    ttl_s = ttl_days * 86_400

    def put(tag: str, request_id: str, t4_ns: int, item: dict[str, Any]) -> None:
        whole = {
            "pk": layout.t4_pk(tag, layout.t4_shard(request_id)),
            "sk": layout.t4_sk(request_id, t4_ns),
            "expires_at": int(time.time()) + ttl_s,
            **item,
        }
        try:
            client.put_item(TableName=table, Item=_attributes(whole))
        except (BotoCoreError, ClientError) as error:
            message = f"results table {table}: {error}"
            raise RecordsUnavailableError(message) from error

    return put


def low_level_flag(client: Any, table: str) -> Callable[[str, str], str | None]:  # noqa: ANN401 -- as above
    """`TrialTable.flag` over a plain client, which gives up as soon as `low_level_put` does."""

    def flag(tag: str, name: str) -> str | None:
        key = {"pk": {"S": layout.trial_pk(tag)}, "sk": {"S": name}}
        try:
            found = client.get_item(TableName=table, Key=key, ConsistentRead=True).get("Item")
        except (BotoCoreError, ClientError) as error:
            message = f"results table {table}: {error}"
            raise RecordsUnavailableError(message) from error
        return None if found is None else str(found["reason"]["S"])

    return flag


def _attributes(item: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _attribute(value) for name, value in item.items()}


def _attribute(value: Any) -> dict[str, Any]:  # noqa: ANN401 -- what an item holds
    match value:
        case bool():  # before int, which it is too
            return {"BOOL": value}
        case int():
            return {"N": str(value)}
        case str():
            return {"S": value}
        case bytes():
            return {"B": value}
        case _:
            return {"L": [{"S": text} for text in value]}
