"""One item's write to DynamoDB over our own wire: the same from a writer as from `CheckClock`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from stepbench.drivers.aws_answers import json_error_code, written

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepbench.drivers.protocol import Write, Written
    from stepbench.wire.aws import SignedClient

_CONTENT_TYPE = ("content-type", "application/x-amz-json-1.0")
_PUT = (_CONTENT_TYPE, ("x-amz-target", "DynamoDB_20120810.PutItem"))
_DELETE = (_CONTENT_TYPE, ("x-amz-target", "DynamoDB_20120810.DeleteItem"))


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
    head = f'{{"TableName":{json.dumps(table)},"Item":{{"pk":{{"S":'

    def put_item(write: Write) -> bytes:
        key, value = (json.dumps(text, ensure_ascii=False) for text in (write.key, write.value.decode()))
        return f'{head}{key}}},"value":{{"S":{value}}}}}}}'.encode()

    return put_item


def delete_item_writer(table: str) -> Callable[[Write], bytes]:
    """A function that makes DeleteItem's body."""
    head = f'{{"TableName":{json.dumps(table)},"Key":{{"pk":{{"S":'

    def delete_item(write: Write) -> bytes:
        return f"{head}{json.dumps(write.key, ensure_ascii=False)}}}}}}}".encode()

    return delete_item
