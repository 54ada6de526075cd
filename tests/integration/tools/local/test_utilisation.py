"""The local servers' CPU through the emulator's CloudWatch, as MeasureUtilisation reads it."""

from __future__ import annotations

import os
import time

import pytest

from stepbench.contracts.capacity import Metric
from stepbench.drivers.metering import MetricMeter
from stepbench.drivers.protocol import Reading
from stepbench_tools.local.processes import ProcessId, wait_until
from stepbench_tools.local.stack import local_client
from stepbench_tools.local.state import EnvironmentState, Server
from stepbench_tools.local.utilisation import Publisher, metric_parameters

pytestmark = pytest.mark.emulator

SECOND_NS = 10**9


@pytest.mark.timeout(120)
def test_what_is_published_is_read_whole(emulator: str) -> None:
    """Every second of a phase, by the very metric that the stack's parameter names; and of no server but this."""
    server = Server(name="etcd", version="", endpoint="", processes=(ProcessId(os.getpid(), 0),))
    parameter = metric_parameters(EnvironmentState(servers=(server,)))["EtcdMetric"]
    meter = MetricMeter(Metric.model_validate_json(parameter), lambda name: local_client(name, emulator))
    cloudwatch = local_client("cloudwatch", emulator)
    readings: list[Reading] = []
    with Publisher({"etcd": (os.getpid(),), "postgresql": ()}, cloudwatch):
        past_ns = time.time_ns() // SECOND_NS * SECOND_NS - 3_600 * SECOND_NS
        assert meter.read(past_ns, past_ns + 3 * SECOND_NS).utilisation is None
        from_ns = (time.time_ns() // SECOND_NS + 1) * SECOND_NS
        to_ns = from_ns + 3 * SECOND_NS

        def is_whole() -> bool:
            sum(range(1_000_000))  # CPU of ours
            readings.append(meter.read(from_ns, to_ns))
            return readings[-1].whole

        wait_until("three seconds of CPU are there", is_whole, timeout_s=60)
    assert readings[-1].utilisation is not None
    assert readings[-1].utilisation > 0
    assert readings[-1].text.endswith("3 periods of 1 s")
