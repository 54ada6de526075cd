from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.support.fake_clock import START_NS, FakeClock

import stepbench.observability  # noqa: F401 -- its logger writes to the stream of its import, which is to outlive a test
from stepbench import services
from stepbench.api.rows import offer_upload
from stepbench.contracts.api import RowsFile
from stepbench.contracts.tasks import AnalyseTrialInput
from stepbench.errors import MOST_CHARACTERS, StepbenchError, TargetUnavailableError
from stepbench.load.process import repeat, run_measuring
from stepbench.services import LONG_CALLS, PROMPT, connect, stage_handler

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepbench.services import Services


async def loop_module() -> str:
    """Return whose loop it is."""
    return type(asyncio.get_running_loop()).__module__


def test_the_measured_path_runs_on_uvloop() -> None:
    """Its share of a request is a third of asyncio's own."""
    assert run_measuring(loop_module()).startswith("uvloop")


def test_without_uvloop_asyncio_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not built for every system."""
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert run_measuring(loop_module()).startswith("asyncio")


def connected(monkeypatch: pytest.MonkeyPatch, region: str, endpoint: str = "") -> Services:
    """Return what functions in a region use."""
    for name, value in (("ACCESS_KEY_ID", "a"), ("SECRET_ACCESS_KEY", "b"), ("ENDPOINT_URL", endpoint)):
        monkeypatch.setenv(f"AWS_{name}", value)
    environ = {"RESULTS_TABLE": "t", "RESULTS_BUCKET": "bucket", "RUNS_TABLE": "r", "AWS_REGION": region}
    return connect({**environ, "AWS_ENDPOINT_URL": endpoint}, PROMPT)


def clients(monkeypatch: pytest.MonkeyPatch, region: str, endpoint: str = "") -> Callable[[str], Any]:
    """Return how functions in a region get their clients."""
    return connected(monkeypatch, region, endpoint).aws


@pytest.mark.parametrize("region", ["us-east-1", "eu-west-1", "eu-south-1"])
def test_a_link_is_signed_for_the_bucket_s_own_region(monkeypatch: pytest.MonkeyPatch, region: str) -> None:
    """The global host answers with a redirect for a bucket that is new, and the signature fits no other host."""
    s3 = clients(monkeypatch, region)("s3")
    url = urlsplit(s3.generate_presigned_url("get_object", Params={"Bucket": "bucket", "Key": "k"}))
    host = "bucket.s3.amazonaws.com" if region == "us-east-1" else f"bucket.s3.{region}.amazonaws.com"
    assert (url.hostname, parse_qs(url.query)["X-Amz-Algorithm"]) == (host, ["AWS4-HMAC-SHA256"])


@pytest.mark.parametrize("endpoint", ["", "http://localhost:4566"])
def test_a_link_for_rows_is_signed_for_their_length_and_content(monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    """What the signature leaves out anybody with the link may choose: other rows, and as many as S3 takes."""
    file = RowsFile(format="jsonl", size_bytes=9, sha256="ab" * 32)
    upload = offer_upload(file, connected(monkeypatch, "eu-west-1", endpoint))
    query = parse_qs(urlsplit(upload.url).query)
    assert query["X-Amz-SignedHeaders"] == ["content-length;host;x-amz-checksum-sha256"]
    assert query["X-Amz-Expires"] == ["300"]


def test_a_link_to_another_endpoint_has_the_bucket_in_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """No resolver knows the bucket's name before an emulator's."""
    s3 = clients(monkeypatch, "eu-west-1", "http://localhost:4566")("s3")
    url = s3.generate_presigned_url("get_object", Params={"Bucket": "bucket", "Key": "k"})
    assert url.startswith("http://localhost:4566/bucket/k?X-Amz-Algorithm=")


def test_a_long_call_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that takes minutes would be started again beside itself, each time boto3 gives an answer up."""
    aws = clients(monkeypatch, "eu-west-1")
    long, short = aws(LONG_CALLS).meta.config, aws("lambda").meta.config
    assert (long.retries["total_max_attempts"], long.read_timeout) == (1, 890)
    assert (short.retries["total_max_attempts"], short.read_timeout) == (3, 4)


def test_actions_keep_their_interval_and_end_between_two_of_them() -> None:
    """Broken off in the middle, a sign of life could arrive after the last one."""
    clock, log = FakeClock(), []

    async def action() -> None:
        log.append(("begins", (clock.now_ns() - START_NS) / 1e9))
        await asyncio.sleep(0.4)
        log.append(("ends", (clock.now_ns() - START_NS) / 1e9))

    async def run() -> None:
        done = asyncio.Event()
        asyncio.get_running_loop().call_later(1.2, done.set)
        await repeat(1.0, action, done)

    clock.run(run())
    assert log == [("begins", 0.0), ("ends", 0.4), ("begins", 1.0), ("ends", 1.4)]


@pytest.mark.parametrize(
    ("told", "ending"), [('"' * 10_000_000, "(10,000,000 characters in all)"), ("no store", "no store")]
)
def test_what_a_stage_raises_fits_into_an_executions_state(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], told: str, ending: str
) -> None:
    """A store whose error has 10 MB ended the whole run, by an error that no state of it could catch."""
    monkeypatch.setattr(services, "connect", lambda _environ: None)

    def stage(_task: AnalyseTrialInput, _services: object) -> AnalyseTrialInput:
        raise TargetUnavailableError(told) from OSError("x" * 10_000_000)

    handler = stage_handler(stage, AnalyseTrialInput)
    with pytest.raises(StepbenchError) as caught:
        handler({"ref": {"run_id": "r", "trial": 0, "tag": "t"}}, None)
    assert type(caught.value).__name__ == "TargetUnavailableError"
    assert str(caught.value).endswith(ending)
    assert len(str(caught.value)) <= MOST_CHARACTERS
    assert len("".join(capsys.readouterr())) < 200_000
