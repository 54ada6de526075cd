"""The stage and its handler: what Lambda gives in, what its graph shows; what is in the process beside them."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from tests.samples.records import REF
from tests.samples.transfer_processes import file_read, transfer_task
from tests.samples.transfer_server import Server, transfer_server

from stepbench.contracts.transfer.rows import RunTransferOutput, TransferRows
from stepbench.experiments.transfer.program.process import Sandbox
from stepbench.records.storage import layout
from stepbench.stages.run_transfer import run_transfer

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY = "files/7/2.bin"
BODY = bytes(range(256)) * 4_096
LEFT_MS = 300_000


@pytest.fixture
def server() -> Iterator[Server]:
    """Have the file."""
    with transfer_server() as made:
        made.objects[KEY] = BODY
        yield made


def test_the_output_counts_outcomes(server: Server) -> None:
    """It is for the console's graph; the rows are in the bucket."""
    task = transfer_task(file_read(BODY), file_read(BODY, path="missing"))
    sandbox = Sandbox(server.environ)
    assert run_transfer(task, sandbox, "request", LEFT_MS) == RunTransferOutput(ok=1, failed=1, unknown=0, cold=True)
    assert run_transfer(task, sandbox, "request", LEFT_MS).cold is False


def test_the_handler_dumps_and_names_the_invocation(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The request id is how a row finds its log."""
    from functions import run_transfer as function  # its sandbox is made when it is loaded

    monkeypatch.setattr(function, "SANDBOX", Sandbox(server.environ))
    context: Any = SimpleNamespace(aws_request_id="request-9", get_remaining_time_in_millis=lambda: LEFT_MS)
    event = transfer_task(file_read(BODY)).model_dump(mode="json")
    assert function.handler(event, context) == {"ok": 1, "failed": 0, "unknown": 0, "cold": True}
    (row,) = TransferRows.model_validate_json(server.stored[layout.transfer_key(REF, 5, 0)]).rows
    assert row.task == "request-9"


def test_the_process_holds_nothing_heavy() -> None:
    """64 MiB are for the reads; boto3 and numpy alone would take half of them."""
    heavy = "{'boto3', 'botocore', 'numpy', 'asyncio', 'aws_lambda_powertools'}"
    own = "functions.run_transfer, stepbench.experiments.transfer.program.__main__"
    code = f"import sys, {own}; print(sorted({heavy} & set(sys.modules)))"
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    said = subprocess.run([sys.executable, "-c", code], env=environ, check=True, capture_output=True, text=True).stdout
    assert said == "[]\n"
