"""What a DAG begins with: made once, always the same, or taken from a file that the plan names."""

from __future__ import annotations

import io
import traceback
from typing import Any
from urllib.error import URLError
from urllib.request import OpenerDirector, Request

import pytest
from botocore.exceptions import ClientError
from tests.samples.dags import dataflow_trial, stage
from tests.samples.services import MemoryServices, stored_trial
from tests.support.fake_clock import FakeClock

from stepbench.contracts.dataflow.dag import Dag
from stepbench.contracts.dataflow.rows import MakeInputInput
from stepbench.contracts.plan import TrialPlan, TrialRef
from stepbench.errors import PlanError, TargetUnavailableError, TrialCancelledError
from stepbench.experiments.dataflow.tasks.applications.synthetic import make_bytes
from stepbench.records.storage import layout
from stepbench.stages.make_input import OnlyHttps, make_input

SIGNATURE = "hunter2"


class Bucket:
    """A bucket with one file."""

    def get_object(self, *, Bucket: str, Key: str) -> dict[str, Any]:  # noqa: N803 -- boto3's
        """Return it, if it is the one."""
        if (Bucket, Key) != ("files", "digits.bin"):
            raise ClientError({"Error": {"Code": "NoSuchKey"}}, "GetObject")
        return {"Body": io.BytesIO(b"digits")}


def trial(services: MemoryServices, run_id: str = "run-1", **given: Any) -> TrialRef:  # noqa: ANN401 -- an input's fields
    """Store a trial whose DAG begins with this input."""
    dag = {"name": "dag", "input": {"maker": "synthetic.bytes", **given}, "stages": [stage("a")]}
    return stored_trial(services.services, TrialPlan.model_validate(dataflow_trial(dag)), run_id)


def make(services: MemoryServices, ref: TrialRef) -> int:
    """Make the input."""
    return make_input(MakeInputInput(ref=ref, dag="dag"), services.services).input_bytes


def stored(services: MemoryServices, ref: TrialRef) -> bytes:
    """Return the input."""
    return services.services.runs.get_bytes(layout.dag_input_key(ref, "dag"))


@pytest.fixture
def services() -> MemoryServices:
    """Return services in memory."""
    return MemoryServices()


def test_an_input_is_its_maker_s_for_its_parameters_and_seed(services: MemoryServices) -> None:
    """Every repeat and every store begins with the same bytes."""
    ref = trial(services, parameters={"input_bytes": 100}, seed=3)
    assert make(services, ref) == 100
    assert stored(services, ref) == make_bytes({"input_bytes": 100}, 3)


def test_an_input_that_is_there_is_left_as_it_is(services: MemoryServices) -> None:
    """The state is retried, and to make one may take minutes."""
    ref = trial(services)
    services.services.runs.put_bytes(layout.dag_input_key(ref, "dag"), b"there")
    assert (make(services, ref), stored(services, ref)) == (5, b"there")


def test_a_file_may_take_its_place() -> None:
    """The published video, say; one that is not there is told by its name."""
    services = MemoryServices(FakeClock(), {"s3": Bucket()}, files_bucket="files")
    ref = trial(services, source="s3://files/digits.bin")
    assert (make(services, ref), stored(services, ref)) == (6, b"digits")
    with pytest.raises(TargetUnavailableError, match="s3://files/other"):
        make(services, trial(services, "run-2", source="s3://files/other"))


@pytest.mark.parametrize(("announced", "whole"), [("6", True), (None, True), ("7", False)])
def test_a_file_that_ends_too_early_is_not_taken(
    announced: str | None, *, whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every task would compute with a part of it, and every retry find it there."""

    class Answer(io.BytesIO):
        """The end of a connection, which `read` takes for the end of the file."""

        headers = {"content-length": announced}  # noqa: RUF012 -- as `HTTPResponse`'s

    monkeypatch.setattr(OpenerDirector, "open", lambda *_, **__: Answer(b"digits"))
    services = MemoryServices(allow_custom_endpoints=True)
    ref = trial(services, source="https://example.com/digits.bin")
    if whole:
        assert (make(services, ref), stored(services, ref)) == (6, b"digits")
    else:
        with pytest.raises(TargetUnavailableError, match="ended after 6 of 7 bytes"):
            make(services, ref)
        assert services.services.runs.find_bytes(layout.dag_input_key(ref, "dag")) is None


def test_the_files_of_stages_are_fetched_with_it() -> None:
    """A trained model, say; a DAG needs no input for that. What cannot be had is told by its path in the plan."""
    services = MemoryServices(FakeClock(), {"s3": Bucket()}, files_bucket="files")

    def with_file(source: str, run_id: str) -> TrialRef:
        dag = {"name": "dag", "stages": [{**stage("a"), "files": {"model": source}}]}
        assert Dag.model_validate(dag).maker == "MakeInput"
        return stored_trial(services.services, TrialPlan.model_validate(dataflow_trial(dag)), run_id)

    ref = with_file("s3://files/digits.bin", "run-1")
    assert make(services, ref) == 6
    assert services.services.runs.get_bytes(layout.dag_file_key(ref, "dag", "a", "model")) == b"digits"
    with pytest.raises(TargetUnavailableError, match=r"dags\[dag\].stages.a.files.model: .* s3://files/other"):
        make(services, with_file("s3://files/other", "run-2"))


def test_parameters_that_a_maker_refuses_are_the_plan_s_fault(services: MemoryServices) -> None:
    """No retry makes them right."""
    with pytest.raises(PlanError, match="input_bytes"):
        make(services, trial(services, parameters={"input_bytes": "many"}))


def test_a_cancelled_trial_makes_nothing(services: MemoryServices) -> None:
    """Whoever clears up has set the flag."""
    ref = trial(services)
    services.services.table.set_flag(ref.tag, layout.CANCELLED, "swept")
    with pytest.raises(TrialCancelledError):
        make(services, ref)


@pytest.mark.parametrize(
    ("leads_to", "problem"),
    [
        ("http://169.254.169.254/latest", "not https"),
        ("ftp://files/digits.bin", "not https"),
        ("https://169.254.169.254/latest", "hands out credentials"),
        ("https://user:secret@example.com/other.bin", "login"),
    ],
)
def test_a_file_that_leads_to_what_a_plan_may_not_name_is_not_followed(leads_to: str, problem: str) -> None:
    """Whoever hands in a plan would have the function read what only it can reach."""
    asked = Request("https://example.com/digits.bin")
    with pytest.raises(URLError, match=problem):
        OnlyHttps().redirect_request(asked, None, 302, "Found", {}, leads_to)
    followed = OnlyHttps().redirect_request(asked, None, 302, "Found", {}, "https://example.com/other.bin")
    assert followed is not None
    assert followed.full_url == "https://example.com/other.bin"


def test_of_s3_only_the_bucket_of_files_is_read() -> None:
    """The function may read the results bucket, too: another team's run would be copied into one's own."""
    services = MemoryServices(FakeClock(), {"s3": Bucket()}, files_bucket="files")
    with pytest.raises(PlanError, match="is not in this stack's bucket of files, files"):
        make(services, trial(services, source="s3://results/runs/theirs/report.html"))


def test_a_stack_that_connects_to_no_servers_of_plans_fetches_none_of_their_files(services: MemoryServices) -> None:
    """It is the same connection, whether a store is asked or a file."""
    with pytest.raises(PlanError, match="AllowCustomEndpoints=true"):
        make(services, trial(services, source="https://example.com/digits.bin"))


def test_what_is_told_of_a_signed_address_is_no_key_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cause goes to the report, to logs and to the execution's history, and so does what it was raised from."""

    def refuse(_opener: object, url: str) -> None:
        message = f"{url} is refused, and leads to {url}"
        raise URLError(message)

    monkeypatch.setattr(OpenerDirector, "open", refuse)
    services = MemoryServices(allow_custom_endpoints=True)
    ref = trial(services, source=f"https://example.com/f?sig={SIGNATURE}")
    with pytest.raises(TargetUnavailableError, match=r"https://example\.com/f") as raised:
        make(services, ref)
    assert SIGNATURE not in "".join(traceback.format_exception(raised.value))
