"""
The deployed API against its own description: requests that schemathesis makes of docs/openapi.json, through HTTP.

Each answer has to have a status, a type and a body that the description names, and none may be a server's error.
STEPBENCH_API_CASES is how many requests are drawn for each operation (`make test-api`: 10,000 in all). Those that cover
the description come on top; of plans with one thing changed only a few, since all of them are tried in process
(tests/unit/api/test_description.py) in a tenth of the time.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from http import HTTPStatus
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import HealthCheck, settings
from requests.auth import AuthBase
from schemathesis.specs.openapi.checks import negative_data_rejection
from tests.end_to_end.api_client import ApiClient
from tests.end_to_end.deployment import RUN_LIMIT_S, Deployment, plan, wait_for
from tests.samples.api_description import CHECKS, OPERATIONS, covering, described

from stepbench.contracts.runs import ENDED_STATES
from stepbench_tools.local.stack import API_URL, REGION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from requests import PreparedRequest
    from schemathesis.generation.case import Case

CASES = int(os.environ.get("STEPBENCH_API_CASES", "25"))
DATASET = "contract"
WHOLE = CASES >= 1_000
EACH = 30
"""Of requests that send a plan each thirtieth."""
schema = described()
pytestmark = [pytest.mark.end_to_end, pytest.mark.timeout(RUN_LIMIT_S + 20 * CASES), pytest.mark.nightly("api")]


class Signed(AuthBase):
    """It signs a request for the deployed API, as the account itself."""

    def __init__(self, host: str) -> None:
        self._host = host

    def __call__(self, request: PreparedRequest) -> PreparedRequest:
        """Add the headers of Signature Version 4."""
        request.headers["Host"] = self._host
        url = urlsplit(str(request.url))._replace(netloc=self._host).geturl()
        signed = AWSRequest(request.method, url, {}, request.body)
        SigV4Auth(Credentials("test", "test"), "execute-api", REGION).add_auth(signed)
        request.headers.update(dict(signed.headers.items()))
        return request


class Target(NamedTuple):
    """The API under test: its clients, its host, and a run of it that has gone through and begun a dataset."""

    api: ApiClient
    endpoint: str
    signed: Signed
    run_id: str
    answers: Counter[int]


@pytest.fixture(scope="module")
def target(deployment: Deployment) -> Iterator[Target]:
    """Return the API with a finished run and a dataset; at the end no run is left, whatever was started meanwhile."""
    api = ApiClient(deployment)
    document = plan("contract", "s3", warm_up=5, measured=20)
    document["trials"].append({"experiment": "transfer", "file_sizes_mib": [1], "transfers": 2, "dataset": DATASET})
    run_id = str(api.call("POST", "/runs", {"plan": document}).body["run_id"])
    assert wait_for(lambda: api.call("GET", f"/runs/{run_id}").body["state"] == "succeeded", RUN_LIMIT_S)
    host = urlsplit(deployment.stack.outputs[API_URL]).netloc
    answers: Counter[int] = Counter()
    yield Target(api, deployment.endpoint("emulator"), Signed(host), run_id, answers)
    sys.stdout.write(f"{answers.total()} answers by status: {dict(sorted(answers.items()))}\n")
    assert wait_for(lambda: _running(api) == [], RUN_LIMIT_S)


def _running(api: ApiClient) -> list[str]:
    runs = api.call("GET", "/runs?limit=200").body["runs"]
    return [run["run_id"] for run in runs if run["state"] not in ENDED_STATES]


def _lead_to(case: Case[Any], run_id: str) -> bool:
    """Have about half of the requests for a run or a dataset ask for one that is there; tell whether this one does."""
    there = dict.fromkeys(("run_id", "a", "b"), run_id)
    if case.path.startswith("/datasets/"):
        there["name"] = DATASET
    led = False
    for place in (case.path_parameters, case.query):
        for name in set(place or {}) & there.keys():
            if len(str(place[name])) % 2:
                place[name], led = there[name], True
    return led


def _assert_described(case: Case[Any], target: Target) -> None:
    led = _lead_to(case, target.run_id)
    asked: dict[str, Any] = {"auth": target.signed, "allow_redirects": False, "timeout": 60}
    answer = case.call(base_url=target.endpoint, **asked)
    target.answers[answer.status_code] += 1
    if case.method == "POST" and answer.status_code == HTTPStatus.ACCEPTED:
        target.api.call("DELETE", f"/runs/{answer.json()['run_id']}")
    case.validate_response(answer, checks=[*CHECKS, *([] if led else [negative_data_rejection])])


@schema.parametrize()
@settings(max_examples=CASES, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_answer_is_as_described(case: Case[Any], target: Target) -> None:
    """Whoever generated a client from the description can read whatever comes."""
    _assert_described(case, target)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_what_covers_the_description_is_answered_as_described(operation: str, target: Target) -> None:
    """Each parameter left out, of another type, too long, and so on, comes through the gateway, too."""
    each = EACH if operation.startswith("POST ") and not WHOLE else 1
    for case in islice(covering(operation), 0, None, each):
        _assert_described(case, target)
