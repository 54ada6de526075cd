"""One item's write to DynamoDB over our own wire: the same from a writer as from `CheckClock`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from stepbench.drivers.aws_answers import json_error_code, written

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepbench.drivers.protocol import Write, Written
    from stepbench.wire.aws import SignedClient

Headers = tuple[tuple[str, str], ...]


def headers_of(action: str) -> Headers:
    """Of a request to DynamoDB's API, such as PutItem."""
    return ("content-type", "application/x-amz-json-1.0"), ("x-amz-target", f"DynamoDB_20120810.{action}")


_PUT, _DELETE = headers_of("PutItem"), headers_of("DeleteItem")


class ItemWrites:
    """Writes to one table. Items are `{"pk": key, "value": value}`; DynamoDB gives no token."""

    def __init__(self, table: str) -> None:
        self._put_item = put_item_writer(table)
        self._delete_item = delete_item_writer(table)

    async def send(self, wire: SignedClient, write: Write) -> Written:
        """PutItem or DeleteItem of one item."""
        headers, body = (_DELETE, self._delete_item(write)) if write.delete else (_PUT, self._put_item(write))
        return written(await wire.send("POST", "/", headers, body), json_error_code)


def put_item_writer(table: str) -> Callable[[Write], bytes]:
    """A function that makes PutItem's body; the constant parts are encoded once."""
    head = f'{{"TableName":{json.dumps(table)},"Item":'

    def put_item(write: Write) -> bytes:
        return f"{head}{item_json(write.key, write.value)}}}".encode()

    return put_item


def item_json(key: str, value: bytes) -> str:
    """An item of a key and a value."""
    pk, text = (json.dumps(text, ensure_ascii=False) for text in (key, value.decode()))
    return f'{{"pk":{{"S":{pk}}},"value":{{"S":{text}}}}}'


def delete_item_writer(table: str) -> Callable[[Write], bytes]:
    """A function that makes DeleteItem's body."""
    head = f'{{"TableName":{json.dumps(table)},"Key":{{"pk":{{"S":'

    def delete_item(write: Write) -> bytes:
        return f"{head}{json.dumps(write.key, ensure_ascii=False)}}}}}}}".encode()

    return delete_item
