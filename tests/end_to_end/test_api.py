"""The HTTP API of the deployed stack: other teams start runs, wait their turn, read results, stop what is theirs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.end_to_end.api_client import ApiClient
from tests.end_to_end.deployment import RUN_LIMIT_S, TO_BE_STOPPED, Deployment, plan, wait_for
from tests.integration.documentation.blocks import of_kind

from stepbench.contracts.result import RunSummary
from stepbench_tools.local.stack import API_URL

pytestmark = [pytest.mark.end_to_end, pytest.mark.timeout(4 * RUN_LIMIT_S)]
AS_DOCUMENTED = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}
"""What docs/api.md exports for a run on one machine."""
AT_ONCE = 20
"""Cold, if this module begins: they wait for a few sandboxes."""


def state_of(api: ApiClient, run_id: str) -> str:
    """Return the run's state."""
    return str(api.call("GET", f"/runs/{run_id}").body["state"])


def succeeded(api: ApiClient, run_id: str) -> bool:
    """Tell whether a run has gone through."""
    return state_of(api, run_id) == "succeeded"


def submit(api: ApiClient, document: Any, **headers: str) -> str:  # noqa: ANN401 -- a plan, or a preset's name
    """Start a run and return its id."""
    found = api.call("POST", "/runs", {"plan": document}, headers)
    assert found.status == 202, found
    return str(found.body["run_id"])


def test_an_unsigned_request_gets_no_further_than_the_gateway(deployment: Deployment) -> None:
    """IAM authorisation is on every route, the unknown ones included."""
    nobody = ApiClient(deployment, None)
    paths = ("/runs", "/plans", "/schema", "/nothing")
    assert {nobody.call("GET", path).status for path in paths} == {403}
    assert nobody.call("POST", "/runs", {"plan": "quick-unloaded-s3"}).status == 403


def test_presets_and_schema_are_there(api: ApiClient) -> None:
    """They come from a layer of their own."""
    names = [each["name"] for each in api.call("GET", "/plans").body["plans"]]
    assert "quick-unloaded" in names
    assert api.call("GET", "/plans/quick-unloaded").body["name"] == "quick-unloaded"
    assert api.call("GET", "/schema").body["title"] == "Stepbench plan"
    assert api.call("GET", "/nothing").body["type"] == "urn:stepbench:problem:not-found"


def test_rows_of_ones_own_are_uploaded_and_named_in_a_plan(api: ApiClient) -> None:
    """They go to the bucket past the API, in the name of its role."""
    with_rows = plan("rows", "s3")
    with_rows["trials"][0]["record"] = {"values": {"key": api.upload(b'{"body": "mine"}\n')}}
    found = api.call("POST", "/plans/validate", {"plan": with_rows})
    assert (found.status, found.body["plan"]) == (200, "rows")


def test_three_runs_take_turns_one_is_cancelled_and_two_are_compared(
    deployment: Deployment, api: ApiClient, other_team: ApiClient
) -> None:
    """The way of a run of another team, from its submission to its records; nothing is left."""
    before = deployment.inventory()
    document = plan("api", "s3", warm_up=10, measured=60)
    with ThreadPoolExecutor(AT_ONCE) as threads:
        asked = [threads.submit(submit, api, document, **{"Idempotency-Key": "once"}) for _ in range(AT_ONCE)]
        (first,) = {each.result() for each in asked}
    assert wait_for(lambda: state_of(api, first) == "running")  # the line's order is that of those who have joined it
    second = submit(api, document)
    assert wait_for(lambda: state_of(api, second) == "queued")
    third = submit(other_team, document)
    assert wait_for(lambda: state_of(other_team, third) == "queued")
    waiting = other_team.call("GET", f"/runs/{third}").body
    assert [each["run_id"] for each in waiting["queue"]["waits_for"]] == [first, second]
    assert waiting["queue"]["position"] in {2, 3}
    assert api.call("GET", f"/runs/{third}").status == 404
    assert api.call("DELETE", f"/runs/{third}").status == 404
    assert other_team.call("DELETE", f"/runs/{first}").status == 403

    assert wait_for(lambda: (api.call("GET", f"/runs/{first}").body["progress"] or {}).get("sent", 0) > 0, RUN_LIMIT_S)
    assert other_team.call("DELETE", f"/runs/{third}").status == 202
    assert wait_for(lambda: state_of(other_team, third) == "stopped")

    for run_id in (first, second):
        assert wait_for(partial(succeeded, api, run_id), RUN_LIMIT_S)
    link = api.call("GET", f"/runs/{first}/summary").headers["location"]
    with urllib.request.urlopen(link, timeout=60) as found:  # noqa: S310 -- the emulator's bucket
        summary = RunSummary.model_validate_json(found.read())
    assert (summary.run_id, summary.trials[0].windows[0].n) == (first, 60)
    assert {api.call("GET", f"/runs/{first}/{name}").status for name in ("report", "records")} == {303}
    assert api.call("GET", f"/compare?a={first}&b={second}").body["verdicts"]

    listed = api.call("GET", "/runs?plan=api&state=succeeded").body["runs"]
    assert [run["run_id"] for run in listed] == [second, first]
    assert deployment.settled_inventory(before) == before


def test_the_documented_python_starts_a_run_and_waits_for_it(deployment: Deployment) -> None:
    """As docs/api.md has it, with the two lines of "On one machine": it read no region, and knew no host."""
    example, local = (each.text for each in of_kind("python") if each.page == "docs/api.md")
    api, emulator = deployment.stack.outputs[API_URL], deployment.endpoint("emulator")
    local = local.replace("http://127.0.0.1:PORT", emulator)
    local = local.replace("API_ID.execute-api.localhost:PORT", urlsplit(api).netloc)
    small = json.dumps(plan("documented", "s3", warm_up=5, measured=20))
    start = 'run = call("POST", "/runs", {"plan": "quick-unloaded-s3"})'
    waits, prints = "time.sleep(10)", 'print(run["state"]'
    assert all(example.count(each) == 1 for each in (start, waits, prints))
    program = example.replace(start, f"{local}run = call('POST', '/runs', {{'plan': json.loads({small!r})}})")
    answer = subprocess.run(
        [sys.executable, "-c", program.replace(waits, "time.sleep(0.5)")],
        env={"PATH": os.defpath, **AS_DOCUMENTED},
        capture_output=True,
        text=True,
        check=False,
        timeout=RUN_LIMIT_S,
    )
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout.startswith("succeeded\n")


def test_the_documented_call_of_curl_is_signed(deployment: Deployment) -> None:
    """The function `call` of docs/api.md, in the environment that the page sets."""
    text = next(each.text for each in of_kind("sh") if each.page == "docs/api.md")
    function = text[text.index("call() {") :].partition("\n\n")[0]
    answer = subprocess.run(
        ["bash", "-euc", f'{function}\ncall "$API/plans"'],
        env={**os.environ, **AS_DOCUMENTED, "API": deployment.stack.outputs[API_URL], "NO_PROXY": "*"},
        capture_output=True,
        text=True,
        check=False,
        timeout=RUN_LIMIT_S,
    )
    assert (answer.returncode, answer.stderr) == (0, "")
    assert "quick-unloaded-s3" in [each["name"] for each in json.loads(answer.stdout)["plans"]]


@pytest.mark.nightly("runs")
def test_a_running_run_is_stopped_by_its_team(deployment: Deployment, api: ApiClient) -> None:
    """Writers end, the target is torn down, the report says what was measured, and the queue is free."""
    before = deployment.inventory()
    run_id = submit(api, plan("api-stopped", "s3", warm_up=10, measured=TO_BE_STOPPED))
    assert wait_for(
        lambda: (api.call("GET", f"/runs/{run_id}").body["progress"] or {}).get("sent", 0) > 20, RUN_LIMIT_S
    )
    assert api.call("DELETE", f"/runs/{run_id}").status == 202
    assert wait_for(lambda: state_of(api, run_id) == "stopped")
    assert deployment.settled_inventory(before) == before
    link = api.call("GET", f"/runs/{run_id}/summary").headers["location"]
    with urllib.request.urlopen(link, timeout=60) as found:  # noqa: S310 -- the emulator's bucket
        summary = RunSummary.model_validate_json(found.read())
    assert (summary.status, summary.trials[0].incomplete) == ("stopped", True)
