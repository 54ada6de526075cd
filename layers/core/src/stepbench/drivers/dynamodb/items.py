"""
Writes of single items to a DynamoDB table over our own wire.

Items are `{"pk": key, "value": value}`, or a key with the attributes of a row. `CheckClock` writes as a writer does, so
this module imports neither boto3 nor numpy: what it imports is a part of each cold start.
"""

from __future__ import annotations

import json
from json.encoder import encode_basestring as quoted  # of `json.dumps` more than half is not the quoting
from typing import TYPE_CHECKING

from stepbench.contracts.identity import EVENT_ID_CHARS
from stepbench.contracts.workload import Kind
from stepbench.model.request import Outcome, Result
from stepbench.wire.http1.aws import SignedRequest, json_error_code, write_result
from stepbench.wire.http1.sigv4 import Form

if TYPE_CHECKING:
    from stepbench.model.request import Request
    from stepbench.wire.http1 import HttpAnswer
    from stepbench.wire.http1.aws import SignedClient
    from stepbench.wire.http1.connection import HttpRequest


def action_form(action: str) -> Form:
    """Return the form of a request to DynamoDB's API, such as PutItem."""
    target = f"DynamoDB_20120810.{action}"
    return Form("POST", (("content-type", "application/x-amz-json-1.0"), ("x-amz-target", target)))


PUT = action_form("PutItem")
_DELETE = action_form("DeleteItem")
_OK, _OK_STATUS = Outcome.OK, 200
_new = tuple.__new__  # as in `wire.http1`: it takes a third of the time of the named tuple's own constructor


class ItemRequests:
    """Requests to one table about items with one value; the constant parts of the bodies are encoded once."""

    def __init__(self, table: str) -> None:
        head = f'{{"TableName":{json.dumps(table)},'
        self._with_key, self._with_item = f'{head}"Key":{{"pk":{{"S":', f'{head}"Item":'
        self._filler, self._quoted_filler = b"", '"'

    def prepare(self, wire: SignedClient, request: Request) -> SignedRequest[Result]:
        """Return a PutItem or DeleteItem of one item, signed."""
        if request.kind is Kind.DELETE:
            return SignedRequest(wire, _DELETE, "/", self.delete_body(request), item_written)
        return SignedRequest(wire, PUT, "/", self.put_body(request), item_written)

    def put_body(self, request: Request) -> bytes:
        """Return PutItem's body."""
        return f"{self._with_item}{self.format_item(request.key, request.value)}}}".encode()

    def delete_body(self, request: Request) -> bytes:
        """Return DeleteItem's body."""
        return f"{self._with_key}{quoted(request.key)}}}}}}}".encode()

    def format_item(self, key: str, value: bytes) -> str:
        """Return an item as JSON; what all values have behind their event's identity is quoted once."""
        identity, filler = value[:EVENT_ID_CHARS], value[EVENT_ID_CHARS:]
        if not identity.isascii():  # a character may begin here and end there
            return f'{{"pk":{{"S":{quoted(key)}}},"value":{{"S":{quoted(value.decode())}}}}}'
        if filler != self._filler:
            self._filler, self._quoted_filler = filler, quoted(filler.decode())[1:]
        start = quoted(identity.decode())[:-1]
        return f'{{"pk":{{"S":{quoted(key)}}},"value":{{"S":{start}{self._quoted_filler}}}}}'


class RowRequests(ItemRequests):
    """Requests about items that have a row's attributes, which are JSON already; `identity` is a further one, or ""."""

    def __init__(self, table: str, identity: str) -> None:
        super().__init__(table)
        self._named = f',{quoted(identity)}:{{"S":"'.encode() if identity else b""

    def put_body(self, request: Request) -> bytes:
        """Return PutItem's body; a value begins with the event's identity where there is an attribute for it."""
        key, row = f'{self._with_item}{{"pk":{{"S":{quoted(request.key)}}}'.encode(), request.value
        if self._named:
            return b'%b%b%b"}%b}}' % (key, self._named, row[:EVENT_ID_CHARS], row[EVENT_ID_CHARS:])
        return b"%b%b}}" % (key, row)


def item_written(sending: HttpRequest, t2_ns: int, answer: HttpAnswer | None, error: str) -> Result:
    """Return the result of a write of one item; the ordinary answer is looked for first."""
    if answer is not None and answer.status == _OK_STATUS:
        return _new(Result, (sending.t1_ns, t2_ns, _OK, "", "", 0, None))
    return write_result(sending.exchange(t2_ns, answer, error), json_error_code)
