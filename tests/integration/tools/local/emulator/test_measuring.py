"""A function with the measuring layer does what it did, and its log group has the lines."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.tools.local.conftest import Functions
from tests.support.measuring_layer import build_layer, measured_lines, pack_layer

from stepbench_tools.local.processes import wait_until
from stepbench_tools.local.stack import local_client

if TYPE_CHECKING:
    from stepbench_tools.local.emulator.server import Emulator

pytestmark = pytest.mark.emulator

TAG = "aaaaaaaaaa-0000"
MEASURED = {"Variables": {"AWS_LAMBDA_EXEC_WRAPPER": "/opt/stepbench-measure", "STEPBENCH_TRIAL": TAG}}
PYTHON = """
def handler(event, context):
    print("printed")
    if event == "fails": raise KeyError(event)
    return {"got": event}
"""


class Measured:
    """Functions with the layer and without, on one emulator."""

    def __init__(self, endpoint: str, layer: bytes) -> None:
        self.functions = Functions(endpoint)
        self._logs = local_client("logs", endpoint)
        published = self.functions.client.publish_layer_version(LayerName="measuring", Content={"ZipFile": layer})
        self.layer_arn = str(published["LayerVersionArn"])

    def make(self, name: str, source: str, **settings: object) -> None:
        """Make a measured function."""
        self.functions.make(name, source, **{"Layers": [self.layer_arn], "Environment": MEASURED, **settings})

    def messages(self, name: str, until: str) -> list[str]:
        """Return what is in a function's log group, once a line with this text is."""

        def read() -> list[str]:
            events = self._logs.filter_log_events(logGroupName=f"/aws/lambda/{name}")["events"]
            return [event["message"].rstrip("\n") for event in events]

        wait_until("the log has its last line", lambda: any(until in line for line in read()), timeout_s=20)
        return read()


@pytest.fixture(scope="module")
def measured(shimmed: Emulator, tmp_path_factory: pytest.TempPathFactory) -> Measured:
    """Publish the layer as `sam build` makes it."""
    return Measured(shimmed.endpoint, pack_layer(build_layer(tmp_path_factory.mktemp("layer") / "built")))


def _without_place(body: Any) -> Any:  # noqa: ANN401 -- JSON
    """Leave out what differs between any two functions: request ids, and the folders of their code."""
    text = re.sub("[0-9a-f]{64}", "", json.dumps(body))
    return json.loads(text, object_hook=lambda held: {**held, "requestId": ""})


def test_it_answers_as_without_the_layer_and_logs_both_stamps(measured: Measured) -> None:
    """The layer is in somebody's function: nothing but its lines may differ."""
    measured.functions.make("bare", PYTHON)
    measured.make("measured", PYTHON)
    for event in ("works", "fails"):
        answers = [measured.functions.call(name, event) for name in ("bare", "measured")]
        assert _without_place(answers[0]) == _without_place(answers[1])
    lines = measured_lines(measured.messages("measured", '"error":"KeyError"'))
    assert [name for name, _ in lines] == ["stepbench.t4", "stepbench.t5"] * 2
    begun, ended = lines[0][1], lines[1][1]
    assert begun["trial"] == TAG
    assert begun["cold"]
    assert 0 < ended["t5"] - begun["t4"] < 1e9
    assert [fields["error"] for name, fields in lines if name == "stepbench.t5"] == ["", "KeyError"]
