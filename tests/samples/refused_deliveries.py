"""
Messages of Lambda's on-failure queues.

Source:
    AWS Lambda Developer Guide, "Capturing records of Lambda asynchronous invocations" (event, answer, condition), and
    "Retain discarded records for a DynamoDB event source" (`DDBStreamBatchInfo`).
"""

from __future__ import annotations

import json
from typing import Any


def refused_event(event: Any, *, condition: str = "RetriesExhausted", error: str = "Sandbox.Timedout") -> str:  # noqa: ANN401 -- whatever was sent
    """Return what is told of an event that was sent to a function; without an error it was never invoked."""
    told = {
        "version": "1.0",
        "timestamp": "2026-01-02T03:04:05.678Z",
        "requestContext": {
            "requestId": "e4b46cbf-b738-xmpl-8880-a18cdf61200e",
            "functionArn": "arn:aws:lambda:us-east-1:1:function:stack-ReceiveEvents:$LATEST",
            "condition": condition,
            "approximateInvokeCount": 1 if error else 0,
        },
        "requestPayload": event,
    }
    if error:
        told["responseContext"] = {"statusCode": 200, "executedVersion": "$LATEST", "functionError": "Unhandled"}
        told["responsePayload"] = {"errorType": error, "errorMessage": "RequestId: 1 Process exited"}
    return json.dumps(told)


def refused_batch(stream_arn: str, first: str, last: str, records: int, shard_id: str = "shardId-1") -> str:
    """Return what is told of a stream's batch: where its records stand, and none of them."""
    return json.dumps(
        {
            "requestContext": {
                "requestId": "316aa6d0-8154-xmpl-9af7-85d5f4a6bc81",
                "functionArn": "arn:aws:lambda:us-east-1:1:function:stack-ReceiveEvents",
                "condition": "RetryAttemptsExhausted",
                "approximateInvokeCount": 4,
            },
            "responseContext": {"statusCode": 200, "executedVersion": "$LATEST", "functionError": "Unhandled"},
            "version": "1.0",
            "timestamp": "2026-01-02T03:04:05.678Z",
            "DDBStreamBatchInfo": {
                "shardId": shard_id,
                "startSequenceNumber": first,
                "endSequenceNumber": last,
                "approximateArrivalOfFirstRecord": "2026-01-02T03:04:05Z",
                "approximateArrivalOfLastRecord": "2026-01-02T03:04:05Z",
                "batchSize": records,
                "streamArn": stream_arn,
            },
        }
    )
