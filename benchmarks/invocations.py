"""
Whether a Map's invocations take the wall time that their number, max_concurrency and the store's delay let expect.

    python -m benchmarks.invocations [--writers 60] [--at-once 2 5 20] [--delay 2]

A proxy in front of this machine's PostgreSQL holds each INSERT's answer for a known time. N invocations of one INSERT
each, c at once, should take ceil(N / c) times the delay and the cost of an invocation; that cost is what they took a
round without the delay. On this machine's environment, which `stepbench up` has started; run by hand, some six
minutes on an idle machine.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.fault_proxy.faults import Delay, Rule
from tests.support.fault_proxy.framing import Postgresql
from tests.support.fault_proxy.proxy import fault_proxy

from stepbench_tools.local.paths import find_paths
from stepbench_tools.local.state import read_state

if TYPE_CHECKING:
    from collections.abc import Sequence

BOUND = b"\0stepbench_insert_row"
"""What begins an execution of the prepared INSERT, and not its preparation: an unnamed portal before the name."""
WITHIN = 0.1
"""Of the expected wall time."""


def run(endpoint: str, writers: int, at_once: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Run a trial for each number at once; return what became of its invocations."""
    phase = {"invoked": {"operations": 1}}
    trials = [
        {
            "experiment": "operations",
            "name": f"at-once-{each}",
            "target": {"store": "postgresql", "endpoint": endpoint},
            "workload": {"mix": {"insert": 1}, "record": {"shape": "row"}, "records": 0},
            "phases": [{"name": "warm-up", "measured": False, **phase}, {"name": "steady", **phase}],
            "writers": writers,
            "max_concurrency": each,
        }
        for each in at_once
    ]
    with tempfile.TemporaryDirectory() as place:
        plan = Path(place, "plan.json")
        plan.write_text(json.dumps({"name": "invocations", "trials": trials}))
        command = [sys.executable, "-m", "stepbench_tools.cli", "run", str(plan), "--no-floors"]
        command += ["--out", str(Path(place, "out")), "--quiet"]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1_800)
        found = [*Path(place, "out").glob("*/summary.json")]
        if ended.returncode or not found:
            raise SystemExit(ended.stderr)
        summary = json.loads(found[0].read_text())
    results = (trial["windows"][0]["operations"] for trial in summary["trials"])
    return {
        each: {**found["invocations"], "per_wall_s": found["per_wall_s"]}
        for each, found in zip(at_once, results, strict=True)
    }


def compare(writers: int, delay_s: float, free: dict[int, dict[str, Any]], held: dict[int, dict[str, Any]]) -> bool:
    """Print a line for each number at once; return whether all are as expected."""
    within = []
    for at_once, found in held.items():
        rounds = math.ceil(writers / at_once)
        cost_s = free[at_once]["wall_s"] / rounds
        expected_s = rounds * (delay_s + cost_s)
        within.append(abs(found["wall_s"] / expected_s - 1) <= WITHIN and found["recorded"] == writers)
        apart, per_s = 100 * (found["wall_s"] / expected_s - 1), writers / expected_s
        print(
            f"{found['recorded']} of {writers} invocations, {at_once} at once (seen {found['most_at_once']}): "
            f"one costs {cost_s:.3f} s, expected {expected_s:.2f} s, took {found['wall_s']:.2f} s ({apart:+.1f} %), "
            f"{found['per_wall_s']:.2f}/s of {per_s:.2f}/s, cold sandboxes {found['cold_sandboxes']}, "
            f"cold connections {found['cold_connections']}, recording {found['recording_ms']:.0f} ms",
            flush=True,
        )
    return all(within)


def main() -> None:
    """Measure without the delay, and with it; exit 1 where a wall time is a tenth from what is expected."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--writers", type=int, default=60)
    parser.add_argument("--at-once", type=int, nargs="+", default=[2, 5, 20])
    parser.add_argument("--delay", type=float, default=2.0, help="seconds that each INSERT's answer is held")
    options = parser.parse_args()
    server = read_state(find_paths(os.environ, Path(__file__)).home).server("postgresql")
    if server is None:
        message = "no PostgreSQL runs: start it with `stepbench up`"
        raise SystemExit(message)
    with fault_proxy(server.endpoint, Postgresql) as proxy:
        free = run(proxy.endpoint, options.writers, options.at_once)
        proxy.follow(Rule(Delay(answer_s=options.delay), match=BOUND))
        held = run(proxy.endpoint, options.writers, options.at_once)
    sys.exit(not compare(options.writers, options.delay, free, held))


if __name__ == "__main__":
    main()
