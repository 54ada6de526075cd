"""What the measuring layer puts into the emulator's results table, taken in as what it prints is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.samples.records import dynamodb_record
from tests.samples.services import small_plan, stored_trial
from tests.support.measuring_layer import build_layer, measured_lines, pack_layer
from tests.support.sandboxes import call, layer, new_sandbox, start

from stepbench.contracts.function import MeasuredFunction
from stepbench.contracts.identity import EventId
from stepbench.records.formats.t4_items import parse_item
from stepbench.stages.function_log import take_in

if TYPE_CHECKING:
    from pathlib import Path

    from stepbench.services import Services

pytestmark = pytest.mark.emulator

FUNCTION = MeasuredFunction(package=f"functions/{'0' * 64}.zip", handler="app.handler", records="table")
SOURCES = {
    "python3.11": {"module.py": "def handler(event, context):\n    return None\n"},
    "nodejs20.x": {"module.js": "exports.handler = async () => null;\n"},
}


@pytest.mark.parametrize("runtime", SOURCES)
@pytest.mark.parametrize("batch", [1, 40])
def test_lines_in_the_table_become_items_without_a_look_into_the_log(
    services: Services, tmp_path: Path, runtime: str, batch: int
) -> None:
    """The copy has no log here at all: what is not in the table would be missed."""
    plan = small_plan("dynamodb")
    target = plan.target.model_copy(update={"function": FUNCTION})
    ref = stored_trial(services, plan.model_copy(update={"target": target}))
    archive = pack_layer(build_layer(tmp_path / "layer"))
    sandbox = new_sandbox(
        tmp_path / "code", SOURCES[runtime], tmp_path / "layers", runtime=runtime, layers=[layer(archive)]
    )
    endpoint = services.aws("dynamodb").meta.endpoint_url
    start(
        sandbox,
        AWS_LAMBDA_EXEC_WRAPPER="/opt/stepbench-measure",
        AWS_ACCESS_KEY_ID="test",
        AWS_SECRET_ACCESS_KEY="test",  # noqa: S106 -- the emulator's
        STEPBENCH_TRIAL=ref.tag,
        STEPBENCH_IDENTITY="value",
        STEPBENCH_RESULTS_TABLE=f"{endpoint}/{services.settings.results_table}",
    )
    events = [EventId(ref.tag, 1, 0, 0, 0, number) for number in range(3 * batch)]
    records = [dynamodb_record(event, sequence=str(event.sequence)) for event in events]
    stamps = {}
    for number in range(3):
        result, _ = call(sandbox, {"Records": records[number * batch :][:batch]}, f"r-{number}")
        ((_, begun),) = measured_lines(result.logs.splitlines())
        stamps[begun["request"]] = begun["t4"]
    sandbox.stop()

    assert take_in(services.trial(ref), services) == 0

    stored = {str(item["sk"]).partition("#")[0]: item for item in services.table.t4_items(ref.tag)}
    assert {request: int(str(item["sk"]).partition("#")[2]) for request, item in stored.items()} == stamps
    sequences = [int(each) for item in stored.values() for each in parse_item(item).entries["sequence"]]
    assert sorted(sequences) == list(range(3 * batch))
    assert all(int(item["t5_ns"]) > stamps[request] for request, item in stored.items())
    assert [int(item["failed_from"]) for item in stored.values()] == [batch] * 3
