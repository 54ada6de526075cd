"""Listing by AWS's answers as botocore's model has them, where an emulator's are fuller."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from botocore.stub import Stubber

from stepbench_tools.local.stack import local_client
from stepbench_tools.rehearsal.inventory import KINDS, find_names

QUEUES = next(kind for kind in KINDS if kind.name == "queues")
MAPPINGS = next(kind for kind in KINDS if kind.name == "mappings")

UUID = "00000000-0000-0000-0000-000000000000"


def _listed(kind: Any, answer: dict[str, Any], **asked: str) -> list[str]:  # noqa: ANN401 -- a Kind
    client = local_client(kind.service, "http://127.0.0.1:9")
    account: Any = SimpleNamespace(client=lambda _service: client)
    with Stubber(client) as stub:
        stub.add_response(kind.operation, answer, asked)
        return list(find_names(account, kind, "rehearsed"))


def test_an_answer_without_a_list_is_nothing() -> None:
    """SQS leaves `QueueUrls` out where there is no queue."""
    assert _listed(QUEUES, {}, QueueNamePrefix="rehearsed-") == []


def test_a_mapping_is_the_stacks_by_its_functions_name() -> None:
    """Whose ARN has it last; another stack's function begins otherwise."""
    arn = "arn:aws:lambda:eu-central-1:000000000000:function:"
    mappings = [
        {"FunctionArn": f"{arn}{name}-ReceiveEvents", "UUID": UUID}
        for name in ("rehearsed", "not-rehearsed", "rehearsed2")
    ]
    assert _listed(MAPPINGS, {"EventSourceMappings": mappings}) == [f"{arn}rehearsed-ReceiveEvents {UUID}"]


def test_every_kind_is_an_operation_that_can_be_paged() -> None:
    """What is on the second page is left, too."""
    for kind in KINDS:
        assert local_client(kind.service, "http://127.0.0.1:9").can_paginate(kind.operation), kind.name
