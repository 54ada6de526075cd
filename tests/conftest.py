"""Fixtures that start real things, once a session, on loopback, and end them with it."""

from __future__ import annotations

import functools
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import botocore.session
import hypothesis
import pytest
from tests.samples.services import RESULTS_TABLE, RUNS_TABLE

from stepbench.services import Services, connect
from stepbench.settings import Settings
from stepbench_tools.local.emulator.server import emulator_name, start_emulator
from stepbench_tools.local.paths import Paths
from stepbench_tools.local.processes import terminate
from stepbench_tools.local.stack import local_client
from stepbench_tools.local.stores import LocalStore
from stepbench_tools.local.stores.postgresql import discard_postgresql, start_postgresql
from stepbench_tools.local.stores.wheels import start_etcd

if TYPE_CHECKING:
    from collections.abc import Iterator

# Assertions of contracts and samples are shown with their values, though they are no test modules by name.
pytest.register_assert_rewrite("tests.support.contracts", "tests.samples.estimates", "tests.samples.refusals")

# Hypothesis would fail an example that takes 200 ms, as any does on a machine with other things to do.
hypothesis.settings.register_profile("suite", deadline=None)
hypothesis.settings.load_profile("suite")

# Who develops in a container may have these set, and users have not: what they start buffers what it prints.
for variable in ("PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE"):
    os.environ.pop(variable, None)

# A Cassandra that starts compiles for longer than it then works; of two compilers the quick one takes a third less.
# Each JVM says on stderr that it has picked this up.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")

# Each session of boto3 would read its services' descriptions anew: half a second of a core for a test that opens one.
botocore.session.create_loader = functools.cache(botocore.session.create_loader)

pytest_plugins = [f"tests.suite.{each}" for each in ("leftovers", "parts", "scheduling")]

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the endpoint of an AWS emulator for this session: the one that STEPBENCH_EMULATOR names, or MiniStack."""
    started = start_emulator(Paths(ROOT, tmp_path_factory.mktemp("emulator")))
    yield started.endpoint
    terminate(started.pids)


@pytest.fixture(scope="session")
def administrators(emulator: str) -> Iterator[tuple[Any, Any]]:
    """Return clients of DynamoDB and S3 that make what `services` are given."""
    clients = local_client("dynamodb", emulator), local_client("s3", emulator)
    yield clients
    for each in clients:
        each.close()


@pytest.fixture
def services(
    emulator: str, administrators: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Services:
    """Return services on the emulator, with a results table, a results bucket and a versioned target bucket."""
    for name, value in {
        "AWS_ENDPOINT_URL": emulator,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    unique = f"t{abs(hash(request.node.nodeid)) % 10**10}-{time.time_ns() % 10**9}"
    dynamodb, s3 = administrators
    dynamodb.create_table(TableName=f"{unique}-results", **RESULTS_TABLE)
    dynamodb.create_table(TableName=f"{unique}-runs", **RUNS_TABLE)
    for bucket in (f"{unique}-results", f"{unique}-target"):
        s3.create_bucket(Bucket=bucket)
    s3.put_bucket_versioning(Bucket=f"{unique}-target", VersioningConfiguration={"Status": "Enabled"})
    settings = Settings(
        results_table=f"{unique}-results",
        runs_table=f"{unique}-runs",
        results_bucket=f"{unique}-results",
        target_bucket=f"{unique}-target",
        target_table_prefix=f"{unique}-target-",
        function_prefix=unique,
        emulator=emulator_name(),
        lead_s=0.5,
        aws_endpoint_url=emulator,
    )
    return connect({name.upper(): str(value) for name, value in settings.model_dump().items() if value != ""})


@pytest.fixture(scope="session")
def etcd_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStore]:
    """Start an etcd from the wheel."""
    store = start_etcd(tmp_path_factory.mktemp("etcd"))
    yield store
    terminate(store.pids)


@pytest.fixture(scope="session")
def postgresql_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStore]:
    """Start a PostgreSQL from the wheel; set `aws_lambda.endpoint_override` (nobody listens there) on the database."""
    directory = tmp_path_factory.mktemp("postgresql")
    store = start_postgresql(directory, "127.0.0.1:9")
    yield store
    terminate(store.pids)
    discard_postgresql(directory)
