"""The control side of files: what answers for S3, and which trials hold them."""

from __future__ import annotations

import asyncio
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest
from tests.samples.services import MemoryServices, stored_trial
from tests.support.fake_clock import FakeClock

from stepbench.contracts.plan import TransferTrial, TrialSpec
from stepbench.drivers.files import FilesDriver
from stepbench.drivers.registry import lease_target
from stepbench.errors import TargetUnavailableError, TargetUnreachableError
from stepbench.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

SETTINGS = Settings(results_table="t", results_bucket="b", files_bucket="files")


class Answering(ThreadingHTTPServer):
    """A server of S3's protocol that answers each request with one status."""

    status = 200

    @property
    def url(self) -> str:
        """Return its address."""
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server_version = "Made-up"

    def do_HEAD(self) -> None:
        assert isinstance(self.server, Answering)
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Answering]:
    """Start it, and have credentials to sign with."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    with Answering(("127.0.0.1", 0), _Handler) as found:
        thread = threading.Thread(target=found.serve_forever, args=(0.01,))
        thread.start()
        yield found
        found.shutdown()
        thread.join()


def spec_of(endpoint: str | None = None) -> TrialSpec:
    """Return a trial of one transfer from S3."""
    document = {"experiment": "transfer", "transfers": 1, "sources": ["s3"], "target": {"endpoint": endpoint}}
    memory = MemoryServices(FakeClock())
    return memory.services.trial(stored_trial(memory.services, TransferTrial.model_validate(document)))


def driver_of(endpoint: str | None = None) -> FilesDriver:
    """Return its driver."""
    return FilesDriver(spec_of(endpoint), SETTINGS, FakeClock())


@pytest.mark.parametrize("status", [200, 404])
def test_a_server_without_the_bucket_is_ready(server: Answering, status: int) -> None:
    """SeedFiles makes the bucket there, and comes later."""
    server.status = status
    assert asyncio.run(driver_of(server.url).ready())


def test_a_server_that_will_not_have_us_is_not_waited_for(server: Answering) -> None:
    """Waiting gives no rights."""
    server.status = 403
    with pytest.raises(TargetUnreachableError, match="cannot be used"):
        asyncio.run(driver_of(server.url).ready())


def test_a_server_that_fails_is(server: Answering) -> None:
    """It may be starting."""
    server.status = 503
    with pytest.raises(TargetUnavailableError) as failed:
        asyncio.run(driver_of(server.url).ready())
    assert not isinstance(failed.value, TargetUnreachableError)


def test_what_stands_in_for_s3_is_named(server: Answering) -> None:
    """Its rates are not S3's."""
    found = asyncio.run(driver_of(server.url).stand_ins())
    assert found.keys() == {"s3"}
    assert "Made-up" in found["s3"]
    assert "not S3" in found["s3"]


def test_trials_of_transfers_wait_for_each_other_whatever_their_endpoint() -> None:
    """They share the function that is changed before each transfer, and the file system."""
    names = {lease_target(spec_of(endpoint), SETTINGS) for endpoint in (None, "http://127.0.0.1:7070")}
    assert names == {"files#files"}
