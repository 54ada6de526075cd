"""How services say that they are asked too much: whole HTTP/1.1 answers, as the services write them."""

from __future__ import annotations

import json


def http_answer(status: str, content_type: str, body: bytes, *headers: str) -> bytes:
    """An answer after which the connection stays open. `status` such as "503 Slow Down"; `headers` as "Name: value"."""
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {content_type}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def _dynamodb(kind: str, message: str) -> bytes:
    body = json.dumps({"__type": kind, "message": message}).encode()
    return http_answer("400 Bad Request", "application/x-amz-json-1.0", body)


DYNAMODB_THROTTLING = _dynamodb(
    "com.amazon.coral.availability#ThrottlingException", "Rate of requests exceeds the allowed throughput."
)
DYNAMODB_EXCEEDED = _dynamodb(
    "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException",
    "The level of configured provisioned throughput for the table was exceeded.",
)
S3_SLOW_DOWN = http_answer(
    "503 Slow Down",
    "application/xml",
    b'<?xml version="1.0" encoding="UTF-8"?>\n'
    b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message>"
    b"<RequestId>FAULTPROXY</RequestId><HostId>fault-proxy</HostId></Error>",
)
LAMBDA_TOO_MANY = http_answer(
    "429 Too Many Requests",
    "application/json",
    b'{"Reason":"ReservedFunctionConcurrentInvocationLimitExceeded","Type":"User","message":"Rate Exceeded."}',
    "x-amzn-ErrorType: TooManyRequestsException",
)
