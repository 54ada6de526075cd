"""Fixtures that start real things, once a session, on loopback, and end them with it."""

from __future__ import annotations

import functools
import gc
import os
import signal
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import botocore.session
import hypothesis
import pytest
from tests.leftovers import end_leftovers
from tests.samples.services import RESULTS_TABLE, RUNS_TABLE
from xdist.scheduler import LoadScopeScheduling

from stepbench.local.emulator.server import emulator_name, start_emulator
from stepbench.local.paths import Paths
from stepbench.local.processes import LocalStore, terminate
from stepbench.local.stack import local_client
from stepbench.local.stores.etcd import start_etcd
from stepbench.local.stores.postgresql import start_postgresql
from stepbench.local.stores.postgresql_server import discard_postgresql
from stepbench.settings import Settings
from stepbench.stages.services import Services, connect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xdist.remote import Producer

# Assertions of contracts and samples are shown with their values, though they are no test modules by name.
pytest.register_assert_rewrite("stepbench.testing.contracts", "tests.samples.estimates", "tests.samples.refusals")

# Hypothesis would fail an example that takes 200 ms, as any does on a machine with other things to do.
hypothesis.settings.register_profile("suite", deadline=None)
hypothesis.settings.load_profile("suite")

# A Cassandra that starts compiles for longer than it then works; of two compilers the quick one takes a third less.
# Each JVM says on stderr that it has picked this up.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")

# Each session of boto3 would read its services' descriptions anew: half a second of a core for a test that opens one.
botocore.session.create_loader = functools.cache(botocore.session.create_loader)

ROOT = Path(__file__).parent.parent
FAULTS = "tests/faults/"
ONE_PROCESS = "tests/integration/drivers/cassandra/"
"""Its modules share a server that takes 900 MB, and some 20 s to start."""
WHOLE_SYSTEM = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests/end_to_end").glob("test_*.py"))
ENVIRONMENTS = 2
SWAPPED = {"tests/end_to_end/test_load_host.py", "tests/end_to_end/test_main_job.py"}
"""Of modules dealt out in turns to environments, these change places: then all environments take about as long."""
FOLDERS = ("end_to_end", "integration", "statemachines", "browser", "unit")
"""In this order several processes begin them: first what waits longest, last what is small enough to end together."""
RUN_FOLDER = pytest.StashKey[Path]()


class _Modules(LoadScopeScheduling):  # type: ignore[misc]  # untyped
    """
    With several processes, a module stays in one, so that its servers are started once.

    Modules of the whole system stay together in as many processes as there are to be environments, every second one in
    the same: they wait most of the time, and meanwhile the other processes have what computes. Cases of the fault tour
    are dealt out one by one; each process that meets one has an environment of its own for all of them.
    """

    def _split_scope(self, nodeid: str) -> str:
        module = nodeid.partition("::")[0]
        if module.startswith(ONE_PROCESS):
            return ONE_PROCESS
        if module in WHOLE_SYSTEM:
            return f"environment {(WHOLE_SYSTEM.index(module) + (module in SWAPPED)) % ENVIRONMENTS}"
        return nodeid if module.startswith(FAULTS) else module


def pytest_configure(config: pytest.Config) -> None:
    """Mark what this run starts; xdist's workers are started by it."""
    if not hasattr(config, "workerinput"):
        config.stash[RUN_FOLDER] = give_folder()
        signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect without looking for garbage: a third of the time, in each process, and nothing of it is garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


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
    """Schedule by module, whatever `--dist` says."""
    return _Modules(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put tests into the order of `FOLDERS`, where several processes share them."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: FOLDERS.index(folder) if (folder := item.nodeid.split("/")[1]) in FOLDERS else -1)


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


# Processes that a run of the suite starts end with it, also after Ctrl-C, when xdist kills its workers. All that is
# started gets the run's own temporary folder, in its environment or as its home: by that it is known.


def give_folder() -> Path:
    """Let this process and all that it starts put temporary files into a new folder; pytest's stay where they were."""
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    folder = Path(tempfile.mkdtemp(prefix="sb-"))
    folder.chmod(0o755)  # a PostgreSQL that root starts runs as another user
    os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = None  # to be looked up anew
    return folder
