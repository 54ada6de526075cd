"""An emulator started as the embedded run starts it, and small functions to try on it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from tests.support.measuring_layer import zipped

from stepbench_tools.local.emulator.server import Emulator, start_emulator
from stepbench_tools.local.paths import Paths
from stepbench_tools.local.processes import terminate
from stepbench_tools.local.stack import local_client

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).parents[4]
ROLE = "arn:aws:iam::000000000000:role/any"


class Answer(NamedTuple):
    """The answer of an invocation: `error` is None, or the function error."""

    error: dict[str, Any] | None
    body: Any


class Functions:
    """The functions are made and called on one emulator."""

    def __init__(self, endpoint: str) -> None:
        self.client = local_client("lambda", endpoint)

    def make(self, name: str, source: str, **settings: object) -> str:
        """Make a function whose module is `source`, and wait until it may be invoked; return its ARN."""
        made = self.client.create_function(
            FunctionName=name,
            Role=ROLE,
            **{
                "Runtime": "python3.11",
                "Handler": "module.handler",
                "Code": {"ZipFile": zipped({"module.py": source})},
                "Timeout": 20,
                **settings,
            },
        )
        self.client.get_waiter("function_active_v2").wait(FunctionName=name, WaiterConfig={"Delay": 0.1})
        return str(made["FunctionArn"])

    def layer(self, name: str, files: Mapping[str, str]) -> str:
        """Publish a layer version; return its ARN."""
        made = self.client.publish_layer_version(LayerName=name, Content={"ZipFile": zipped(files)})
        return str(made["LayerVersionArn"])

    def call(self, name: str, event: object = None) -> Answer:
        """Invoke and wait."""
        answer = self.client.invoke(FunctionName=name, Payload=json.dumps(event).encode())
        body = json.loads(answer["Payload"].read() or b"null")
        return Answer(body, None) if answer.get("FunctionError") else Answer(None, body)


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> Paths:
    """Return the paths of this clone, with a run directory of the test's own."""
    return Paths(ROOT, tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def shimmed(paths: Paths) -> Iterator[Emulator]:
    """Start an emulator, Lambdas under AWS's runtime client."""
    emulator = start_emulator(paths)
    try:
        yield emulator
    finally:
        terminate([emulator.pid])


@pytest.fixture
def functions(shimmed: Emulator) -> Functions:
    """Return functions on the emulator."""
    return Functions(shimmed.endpoint)
