"""The local servers' CPU as a metric: no gap, no second twice, and no failure that a run would notice."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from stepbench.contracts.capacity import Metric
from stepbench_tools.local.processes import ProcessId
from stepbench_tools.local.state import EnvironmentState, Server
from stepbench_tools.local.utilisation import Publisher, Sampler, Value, cpu_s, metric_parameters, server_pids

OURS = (ProcessId(1, 0),)
"""The processes of a server that we have started."""


@pytest.mark.parametrize(
    ("used_s", "looks"),
    [
        pytest.param(
            (10.0, 10.5, 10.75), {101.0: [(100, 50.0)], 102.0: [(101, 25.0)]}, id="every second has one value"
        ),
        pytest.param((10.0, 11.5), {103.0: [(100, 50.0), (101, 50.0), (102, 50.0)]}, id="a late look leaves no gap"),
        pytest.param((10.0, 10.5), {100.9: [], 101.0: [(100, 50.0)]}, id="a look too early takes nothing away"),
        pytest.param((10.0, 9.0), {101.0: [(100, 0.0)]}, id="a process that vanished takes its time with it"),
    ],
)
def test_each_whole_second_is_told_once_in_per_cent_of_a_core(
    used_s: tuple[float, ...], looks: dict[float, list[tuple[int, float]]]
) -> None:
    """On a busy machine the thread may wait for three seconds; a gap would be waited for in vain."""
    told = iter(used_s)
    sampler = Sampler({"etcd": (1,)}, lambda _name: next(told), 100.0)
    for now_s, expected in looks.items():
        assert sampler.values(now_s) == [Value("etcd", *each) for each in expected]


def test_children_count_while_they_run_and_after() -> None:
    """PostgreSQL has a process a connection, and those come and go."""
    spin = "import os\nwhile os.times().user < 0.3: pass"
    parent = (
        f"import subprocess, sys; subprocess.run([sys.executable, '-c', {spin!r}]); print(flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", parent]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()  # the child has come and gone, and its parent does nothing
        assert cpu_s([process.pid], alone=False) - cpu_s([process.pid], alone=True) >= 0.3
        process.communicate(timeout=60)


def test_a_pid_that_is_gone_has_used_nothing() -> None:
    """A server may have ended; the run will tell."""
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pid = ended.pid
    assert cpu_s([pid], alone=True) == 0


def test_each_running_server_has_its_parameter() -> None:
    """A stack without etcd has no metric of it, so that a plan which needs it is refused."""
    servers = (
        Server(name="emulator", version="1", endpoint="x", processes=OURS),
        Server(name="etcd", version="3", endpoint="y", processes=OURS),
        Server(name="clock-reference", version="", endpoint="z", processes=OURS),
    )
    parameters = metric_parameters(EnvironmentState(servers=servers))
    assert set(parameters) == {"DynamoDbMetric", "EtcdMetric"}
    metric = Metric.model_validate_json(parameters["EtcdMetric"])
    assert (metric.dimensions, metric.period_s) == (({"Server": "etcd"},), 1)


def test_an_emulator_that_somebody_else_has_started_has_no_metric() -> None:
    """Its processor time cannot be read, and 0 % would look like a measurement."""
    emulator = Server(name="emulator", version="1", endpoint="http://elsewhere", processes=())
    state = EnvironmentState(servers=(emulator,))
    assert metric_parameters(state) == {}
    assert server_pids(state) == {}


def test_a_cluster_has_one_metric_of_all_its_members() -> None:
    """The busiest counts, which is the leader, and nobody knows beforehand who that is."""
    servers = [Server(name=f"etcd-{number}", version="3", endpoint="", processes=OURS) for number in (1, 2, 3)]
    state = EnvironmentState(servers=tuple(servers))
    metric = Metric.model_validate_json(metric_parameters(state)["EtcdMetric"])
    assert [each["Server"] for each in metric.dimensions] == ["etcd-1", "etcd-2", "etcd-3"]
    assert server_pids(state).keys() == {"etcd-1", "etcd-2", "etcd-3"}


class Cloudwatch:
    """It takes data, after as many refusals as told."""

    def __init__(self, refusals: int) -> None:
        self.refusals = refusals
        self.taken: list[dict[str, Any]] = []
        self.enough = threading.Event()

    def put_metric_data(self, *, Namespace: str, MetricData: list[dict[str, Any]]) -> None:  # noqa: N803 -- boto3's
        """Record a call like boto3's client."""
        assert Namespace == "Stepbench/Local"
        if self.refusals:
            self.refusals -= 1
            raise EndpointConnectionError(endpoint_url="http://127.0.0.1:1")
        self.taken += MetricData
        if len(self.taken) > 1:
            self.enough.set()


@pytest.mark.timeout(30)
def test_what_the_emulator_refuses_is_sent_later() -> None:
    """It is busy, which is just when the values matter; and the thread ends when it is told to."""
    cloudwatch = Cloudwatch(refusals=1)
    with Publisher({"etcd": (os.getpid(),)}, cloudwatch):
        assert cloudwatch.enough.wait(20)
    assert not [thread for thread in threading.enumerate() if thread.name == "utilisation"]
    seconds = [int(each["Timestamp"].timestamp()) for each in cloudwatch.taken]
    assert seconds == list(range(seconds[0], seconds[0] + len(seconds)))
    assert {each["StorageResolution"] for each in cloudwatch.taken} == {1}
