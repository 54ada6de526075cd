from __future__ import annotations

import io
import zipfile
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from stepbench.contracts.result import Manifest, RunSummary
from stepbench.contracts.tasks import RenderReportInput, TrialOutcome
from stepbench.records import layout
from stepbench.stages.render_report import render_report
from stepbench.testing.sample_results import sample_results
from stepbench.testing.trials import small_plan, stored_trial

if TYPE_CHECKING:
    from stepbench.stages.services import Services

pytestmark = pytest.mark.emulator
RUN = "run-1"


def create_function(services: Services, name: str) -> None:
    """A function that the manifest can find; it is never invoked."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("index.py", "def handler(event, context): ...")
    services.aws("lambda").create_function(
        FunctionName=f"{services.settings.function_prefix}-{name}",
        Runtime="python3.13",
        Role="arn:aws:iam::000000000000:role/none",
        Handler="index.handler",
        MemorySize=512,
        Timeout=30,
        Code={"ZipFile": archive.getvalue()},
    )


def test_a_run_in_the_bucket_becomes_a_report_in_the_bucket(services: Services) -> None:
    """The real bucket, table and Lambda API: four trials, of which one ended early and another left nothing."""
    create_function(services, "RunWriter")
    for index, result in enumerate(sample_results()):
        ref = stored_trial(services, small_plan(result.summary.store), RUN, index)
        services.runs.put_model(layout.trial_key(ref, "result.json"), result)
    stored_trial(services, small_plan("s3"), RUN, 4)
    errors = ("", "", "", "States.TaskFailed", "States.TaskFailed")
    outcomes = tuple(TrialOutcome(trial=trial, error=error) for trial, error in enumerate(errors))
    output = render_report(
        RenderReportInput(run_id=RUN, started_at=datetime(2025, 6, 1, tzinfo=UTC), outcomes=outcomes), services
    )
    assert (output.status, output.failed_trials) == ("failed", ("etcd", "s3"))
    assert output.report == f"s3://{services.settings.results_bucket}/runs/{RUN}/report.html"
    stored = services.aws("s3").get_object(Bucket=services.settings.results_bucket, Key=f"runs/{RUN}/report.html")
    assert stored["ContentType"] == "text/html; charset=utf-8"
    assert stored["Body"].read().startswith(b"<!DOCTYPE html>")
    summary = services.runs.get_model(layout.run_key(RUN, "summary.json"), RunSummary)
    assert [trial.failure is None for trial in summary.trials] == [True, True, True, False, False]
    manifest = services.runs.get_model(layout.run_key(RUN, "manifest.json"), Manifest)
    prefix = services.settings.function_prefix
    assert list(manifest.functions) == [f"{prefix}-RunWriter"]
    assert manifest.functions[f"{prefix}-RunWriter"]["memory_mb"] == 512
