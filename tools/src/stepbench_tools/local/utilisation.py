"""
How busy the local servers are: CPU time of their processes, once a second, as a metric in the emulator's CloudWatch.

There MeasureUtilisation finds it as it finds CPUUtilization on AWS; which metric it is, the stack's parameters say.
100 is one core: a server with several threads may show more, and shares the cores with whatever else runs here. Of
the emulator it is the one process that plays AWS, without the sandboxes that it has started; that stands for
a table's utilisation.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import psutil
from botocore.exceptions import BotoCoreError, ClientError

from stepbench.contracts.capacity import Metric
from stepbench_tools.local.environment import EMULATOR
from stepbench_tools.local.processes import family
from stepbench_tools.local.stores.servers import SERVERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from stepbench_tools.local.state import EnvironmentState

NAMESPACE, METRIC, DIMENSION = "Stepbench/Local", "CpuOfOneCore", "Server"
PERIOD_S = 1
PARAMETERS = {"DynamoDbMetric": EMULATOR} | {each.metric: name for name, each in SERVERS.items() if each.metric}
"""The template's parameter with the metric of a server, or of a cluster's members."""
MAX_KEPT = 600
"""Seconds of values that wait for an emulator that does not answer."""
_STOP_S = 5.0
_AFTER_THE_SECOND_S = 0.02


class Value(NamedTuple):
    """A value is a server's CPU in the second that began at `second` (since the epoch), in per cent of a core."""

    server: str
    second: int
    percent: float


def metric_parameters(state: EnvironmentState) -> dict[str, str]:
    """Return the template's parameters for the servers that run, if their processes are ours."""
    named = {
        name: tuple({DIMENSION: each.name} for each in state.members(name) if each.processes)
        for name in PARAMETERS.values()
    }
    return {
        parameter: Metric(
            namespace=NAMESPACE, metric=METRIC, dimensions=named[name], period_s=PERIOD_S
        ).model_dump_json()
        for parameter, name in PARAMETERS.items()
        if named[name]
    }


def server_pids(state: EnvironmentState) -> dict[str, tuple[int, ...]]:
    """Return the processes of each server that is sampled."""
    servers = [server for name in PARAMETERS.values() for server in state.members(name)]
    return {server.name: tuple(process.pid for process in server.processes) for server in servers if server.processes}


def cpu_s(pids: Iterable[int], *, alone: bool) -> float:
    """
    Return the seconds of CPU that the processes have used, and unless `alone` their descendants, ended ones included.

    What an ended child has used its parent counts, once it has waited for it.
    """
    total = 0.0
    for process in _processes(pids, alone=alone):
        with contextlib.suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system
            total += 0.0 if alone else times.children_user + times.children_system
    return total


def _processes(pids: Iterable[int], *, alone: bool) -> list[psutil.Process]:
    if not alone:
        return family(pids)
    found = []
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            found.append(psutil.Process(pid))
    return found


class Sampler:
    """The sampler turns CPU times into values, one for every whole second; a late call leaves no gap."""

    def __init__(self, servers: Mapping[str, tuple[int, ...]], used_s: Callable[[str], float], now_s: float) -> None:
        self._used_s = used_s
        self._last_s = now_s
        self._before = {name: used_s(name) for name in servers}

    def values(self, now_s: float) -> list[Value]:
        """Return values of all seconds that have ended since the last call, each with the average since then."""
        seconds = range(int(self._last_s), int(now_s))
        if not seconds:
            return []
        span_s, self._last_s = now_s - self._last_s, now_s
        used_s = {name: self._used_s(name) for name in self._before}
        # A process that ended without being waited for takes its time with it.
        percent = {name: 100 * max(0.0, used_s[name] - before) / span_s for name, before in self._before.items()}
        self._before = used_s
        return [Value(name, second, share) for name, share in percent.items() for second in seconds]


class Publisher:
    """
    The publisher is a thread that samples and publishes within a `with` block. What goes wrong in it hurts no run.

    It is there only while a run needs it: each publication is a request to the very emulator that is being measured.
    """

    def __init__(self, servers: Mapping[str, tuple[int, ...]], cloudwatch: Any) -> None:  # noqa: ANN401 -- boto3 client
        self._servers = servers
        self._cloudwatch = cloudwatch
        self._waiting: deque[Value] = deque(maxlen=MAX_KEPT * max(1, len(servers)))
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="utilisation", daemon=True)

    def __enter__(self) -> None:
        """Start the thread."""
        self._thread.start()

    def __exit__(self, *_error: object) -> None:
        """End the thread, and wait for it a little."""
        self._stopped.set()
        self._thread.join(_STOP_S)

    def _run(self) -> None:
        sampler = Sampler(self._servers, self._used_s, time.time())
        while not self._stopped.wait(1 - time.time() % 1 + _AFTER_THE_SECOND_S):
            self._waiting.extend(sampler.values(time.time()))
            self._publish()

    def _used_s(self, server: str) -> float:
        return cpu_s(self._servers[server], alone=server == EMULATOR)

    def _publish(self) -> None:
        """Send what is waiting; what the emulator does not accept now is sent with the next."""
        try:
            while self._waiting:
                portion = list(self._waiting)[:MAX_KEPT]
                self._cloudwatch.put_metric_data(Namespace=NAMESPACE, MetricData=[_datum(each) for each in portion])
                for _ in portion:
                    self._waiting.popleft()
        except (BotoCoreError, ClientError):
            return


def _datum(value: Value) -> dict[str, Any]:
    return {
        "MetricName": METRIC,
        "Dimensions": [{"Name": DIMENSION, "Value": value.server}],
        "Timestamp": datetime.fromtimestamp(value.second, UTC),
        "Value": value.percent,
        "Unit": "Percent",
        "StorageResolution": PERIOD_S,
    }
