"""The local servers' CPU as a metric: no gap, no second twice, and no failure that a run would notice."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import EndpointConnectionError

from stepbench.contracts.metric import Metric
from stepbench.local.state import EnvironmentState, Server
from stepbench.local.utilisation import Publisher, Sampler, Value, cpu_s, metric_parameters

if TYPE_CHECKING:
    from collections.abc import Callable

SERVERS = {"etcd": (1,)}


def used(*seconds: float) -> Callable[[str], float]:
    """CPU seconds, one at each call."""
    told = iter(seconds)
    return lambda _name: next(told)


def test_every_second_has_one_value() -> None:
    """In per cent of a core: 0.5 s of CPU in the first, 0.25 s in the second."""
    sampler = Sampler(SERVERS, used(10.0, 10.5, 10.75), 100.0)
    assert sampler.values(101.0) == [Value("etcd", 100, 50.0)]
    assert sampler.values(102.0) == [Value("etcd", 101, 25.0)]


def test_a_late_look_leaves_no_gap() -> None:
    """On a busy machine the thread may wait for three seconds; a gap would be waited for in vain."""
    sampler = Sampler(SERVERS, used(10.0, 11.5), 100.0)
    assert sampler.values(103.0) == [Value("etcd", second, 50.0) for second in (100, 101, 102)]


def test_a_look_too_early_takes_nothing_away() -> None:
    """The second is told once it is over, with all of its CPU."""
    sampler = Sampler(SERVERS, used(10.0, 10.5), 100.0)
    assert sampler.values(100.9) == []
    assert sampler.values(101.0) == [Value("etcd", 100, 50.0)]


def test_a_process_that_vanished_is_not_less_than_idle() -> None:
    """One that nobody waited for takes its time with it."""
    sampler = Sampler(SERVERS, used(10.0, 9.0), 100.0)
    assert sampler.values(101.0) == [Value("etcd", 100, 0.0)]


def test_children_count_while_they_run_and_after() -> None:
    """PostgreSQL has a process a connection, and those come and go."""
    spin = "import os\nwhile os.times().user < 0.3: pass"
    before, alone = cpu_s([os.getpid()], alone=False), cpu_s([os.getpid()], alone=True)
    subprocess.run([sys.executable, "-c", spin], check=True, timeout=60)
    assert cpu_s([os.getpid()], alone=False) - before >= 0.3
    assert cpu_s([os.getpid()], alone=True) - alone < 0.3


def test_a_pid_that_is_gone_has_used_nothing() -> None:
    """A server may have ended; the run will tell."""
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pid = ended.pid
    assert cpu_s([pid], alone=True) == 0


def test_each_running_server_has_its_parameter() -> None:
    """A stack without etcd has no metric of it, so that a plan which needs it is refused."""
    servers = (
        Server(name="emulator", version="1", endpoint="x", processes=()),
        Server(name="etcd", version="3", endpoint="y", processes=()),
        Server(name="clock-reference", version="", endpoint="z", processes=()),
    )
    parameters = metric_parameters(EnvironmentState(servers=servers))
    assert set(parameters) == {"DynamoDbMetric", "EtcdMetric"}
    metric = Metric.model_validate_json(parameters["EtcdMetric"])
    assert (metric.dimensions, metric.period_s) == (({"Server": "etcd"},), 1)


class Cloudwatch:
    """Takes data, after as many refusals as told."""

    def __init__(self, refusals: int) -> None:
        self.refusals = refusals
        self.taken: list[dict[str, Any]] = []
        self.enough = threading.Event()

    def put_metric_data(self, *, Namespace: str, MetricData: list[dict[str, Any]]) -> None:  # noqa: N803 -- boto3's
        """As boto3's client."""
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
    publisher = Publisher({"etcd": (os.getpid(),)}, cloudwatch)
    publisher.start()
    try:
        assert cloudwatch.enough.wait(20)
    finally:
        publisher.stop()
    assert not [thread for thread in threading.enumerate() if thread.name == "utilisation"]
    seconds = [int(each["Timestamp"].timestamp()) for each in cloudwatch.taken]
    assert seconds == list(range(seconds[0], seconds[0] + len(seconds)))
    assert {each["StorageResolution"] for each in cloudwatch.taken} == {1}
