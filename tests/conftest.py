"""Fixtures that start real things, once a session, on loopback, and end them with it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
import pytest
from tests.leftovers import end_leftovers, give_folder
from xdist.scheduler import LoadScopeScheduling

from stepbench.local.etcd import start_etcd
from stepbench.local.postgresql import start_postgresql
from stepbench.local.postgresql_server import discard_postgresql
from stepbench.local.processes import LocalStore, terminate
from stepbench.settings import Settings
from stepbench.stages.services import Services, connect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xdist.remote import Producer

ROOT = Path(__file__).parent.parent
WHOLE_SYSTEM = ("tests/end_to_end/",)
RUN_FOLDER = pytest.StashKey[Path]()


class _Modules(LoadScopeScheduling):  # type: ignore[misc]  # untyped
    """
    With several processes, a module stays in one, and all that run the whole system stay together.

    So each server is started once, and no two systems share the machine.
    """

    def _split_scope(self, nodeid: str) -> str:
        module = nodeid.partition("::")[0]
        return next((folder for folder in WHOLE_SYSTEM if module.startswith(folder)), module)


def pytest_configure(config: pytest.Config) -> None:
    """Mark what this run starts; xdist's workers are started by it."""
    if not hasattr(config, "workerinput"):
        config.stash[RUN_FOLDER] = give_folder()
        signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """End what fixtures did not; after a run that was not interrupted there should be nothing."""
    folder = session.config.stash.get(RUN_FOLDER, None)
    left = end_leftovers(folder) if folder else []
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if left and reporter is not None:
        reporter.section("processes that tests had left running, now ended")
        reporter.write("\n".join([*left, ""]))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> _Modules:
    """Whatever `--dist` says."""
    return _Modules(config, log)


def free_port() -> int:
    """A loopback port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="session")
def emulator() -> Iterator[str]:
    """Endpoint of an AWS emulator: the one at AWS_ENDPOINT_URL, or MiniStack started for this session."""
    given = os.environ.get("STEPBENCH_TEST_ENDPOINT")
    if given:
        yield given
        return
    port = free_port()
    endpoint = f"http://127.0.0.1:{port}"
    environ = {**os.environ, "BIND_HOST": "127.0.0.1", "IOT_MTLS_ENABLED": "0", "GATEWAY_PORT": str(port)}
    python = ROOT / ".stepbench/venvs/emulator/bin/python"
    process = subprocess.Popen(
        [python, "-m", "ministack"], env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        _await_http(endpoint + "/_localstack/health", process)
        yield endpoint
    finally:
        process.terminate()
        process.wait(10)


def _await_http(url: str, process: subprocess.Popen[bytes]) -> None:
    for _ in range(200):
        if process.poll() is not None:
            break
        try:
            urllib.request.urlopen(url, timeout=1).close()  # noqa: S310 -- our own loopback address
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.05)
        else:
            return
    sys.exit(f"the emulator did not answer at {url}")


@pytest.fixture
def services(emulator: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Services:
    """Services on the emulator, with a results table, a results bucket and a versioned target bucket of their own."""
    for name, value in {
        "AWS_ENDPOINT_URL": emulator,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    unique = f"t{abs(hash(request.node.nodeid)) % 10**10}-{time.time_ns() % 10**9}"
    boto3.client("dynamodb").create_table(
        TableName=f"{unique}-results",
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": n, "AttributeType": "S"} for n in ("pk", "sk")],
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
    )
    s3 = boto3.client("s3")
    for bucket in (f"{unique}-results", f"{unique}-target"):
        s3.create_bucket(Bucket=bucket)
    s3.put_bucket_versioning(Bucket=f"{unique}-target", VersioningConfiguration={"Status": "Enabled"})
    settings = Settings(
        results_table=f"{unique}-results",
        results_bucket=f"{unique}-results",
        target_bucket=f"{unique}-target",
        target_table_prefix=f"{unique}-target-",
        function_prefix=unique,
        emulator="MiniStack 1.5.33",
        lead_s=0.5,
        aws_endpoint_url=emulator,
    )
    return connect({name.upper(): str(value) for name, value in settings.model_dump().items() if value != ""})


@pytest.fixture(scope="session")
def etcd_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStore]:
    """An etcd from the wheel."""
    store = start_etcd(tmp_path_factory.mktemp("etcd"))
    yield store
    terminate(store.pids)


@pytest.fixture(scope="session")
def postgresql_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStore]:
    """A PostgreSQL from the wheel; set `aws_lambda.endpoint_override` (nobody listens there) on the database."""
    directory = tmp_path_factory.mktemp("postgresql")
    store = start_postgresql(directory, "127.0.0.1:9")
    yield store
    terminate(store.pids)
    discard_postgresql(directory)
