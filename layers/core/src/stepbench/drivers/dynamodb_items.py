"""One item's write to DynamoDB over our own wire: the same from a writer as from `CheckClock`."""

from __future__ import annotations

import json
from json.encoder import encode_basestring as quoted  # of `json.dumps` more than half is not the quoting
from typing import TYPE_CHECKING

from stepbench.contracts.identity import EVENT_ID_CHARS
from stepbench.drivers.aws_answers import json_error_code, written
from stepbench.drivers.protocol import Outcome, Written
from stepbench.wire.aws import SignedRequest
from stepbench.wire.sigv4 import Form

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepbench.drivers.protocol import Write
    from stepbench.wire.aws import SignedClient
    from stepbench.wire.connection import Sending
    from stepbench.wire.http1 import Answer


def form_of(action: str) -> Form:
    """Of a request to DynamoDB's API, such as PutItem."""
    target = f"DynamoDB_20120810.{action}"
    return Form("POST", (("content-type", "application/x-amz-json-1.0"), ("x-amz-target", target)))


_OK, _OK_STATUS = Outcome.OK, 200
_written = tuple.__new__  # as `wire.http1`'s
_PUT, _DELETE = form_of("PutItem"), form_of("DeleteItem")


class ItemWrites:
    """Writes to one table. Items are `{"pk": key, "value": value}`; DynamoDB gives no token."""

    def __init__(self, table: str) -> None:
        self._put_item = put_item_writer(table)
        self._delete_item = delete_item_writer(table)

    def make(self, wire: SignedClient, write: Write) -> SignedRequest[Written]:
        """PutItem or DeleteItem of one item."""
        if write.delete:
            return SignedRequest(wire, _DELETE, "/", self._delete_item(write), item_written)
        return SignedRequest(wire, _PUT, "/", self._put_item(write), item_written)


def item_written(sending: Sending, t2_ns: int, answer: Answer | None, error: str) -> Written:
    """What came of a write of one item; of the ordinary answer first, at once."""
    if answer is not None and answer.status == _OK_STATUS:
        return _written(Written, (sending.t1_ns, t2_ns, _OK, "", ""))
    return written(sending.exchange(t2_ns, answer, error), json_error_code)


def put_item_writer(table: str) -> Callable[[Write], bytes]:
    """A function that makes PutItem's body; the constant parts are encoded once."""
    head, items = f'{{"TableName":{json.dumps(table)},"Item":', Items()

    def put_item(write: Write) -> bytes:
        return f"{head}{items.text(write.key, write.value)}}}".encode()

    return put_item


class Items:
    """Items of a key and a value, as JSON; what all values have behind their event's identity is quoted once."""

    def __init__(self) -> None:
        self._filler, self._quoted_filler = b"", '"'

    def text(self, key: str, value: bytes) -> str:
        """One of them."""
        identity, filler = value[:EVENT_ID_CHARS], value[EVENT_ID_CHARS:]
        if not identity.isascii():  # a character may begin here and end there
            return f'{{"pk":{{"S":{quoted(key)}}},"value":{{"S":{quoted(value.decode())}}}}}'
        if filler != self._filler:
            self._filler, self._quoted_filler = filler, quoted(filler.decode())[1:]
        begun = quoted(identity.decode())[:-1]
        return f'{{"pk":{{"S":{quoted(key)}}},"value":{{"S":{begun}{self._quoted_filler}}}}}'


def delete_item_writer(table: str) -> Callable[[Write], bytes]:
    """A function that makes DeleteItem's body."""
    head = f'{{"TableName":{json.dumps(table)},"Key":{{"pk":{{"S":'

    def delete_item(write: Write) -> bytes:
        return f"{head}{quoted(write.key)}}}}}}}".encode()

    return delete_item
