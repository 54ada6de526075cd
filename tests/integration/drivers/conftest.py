"""What the drivers' tests share."""

from __future__ import annotations

import io
import socket
import zipfile
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.stages.services import Services

# The contract's assertions are shown with their values, though it is no test module by name.
pytest.register_assert_rewrite("stepbench.testing.driver_contract")


@pytest.fixture
def nowhere() -> Iterator[str]:
    """A loopback URL that refuses connections: the port is ours, and nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}"


@pytest.fixture
def receiver_arn(services: Services) -> Iterator[str]:
    """A function that triggers can name; no concurrency is left to it, so it never runs."""
    code = io.BytesIO()
    with zipfile.ZipFile(code, "w") as archive:
        archive.writestr("stub.py", "def handler(event, context): return {}")
    client = services.aws("lambda")
    name = f"{services.settings.function_prefix}-ReceiveEvents"
    arn: str = client.create_function(
        FunctionName=name,
        Runtime="python3.13",
        Role="arn:aws:iam::000000000000:role/stub",
        Handler="stub.handler",
        Code={"ZipFile": code.getvalue()},
    )["FunctionArn"]
    client.put_function_concurrency(FunctionName=name, ReservedConcurrentExecutions=0)
    yield arn
    client.delete_function(FunctionName=name)
