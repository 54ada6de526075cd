"""
The dashboard in Chromium with many runs in the register: bytes, first paint, and how long a live look takes.

    stepbench up && python -m benchmarks.dashboard [--runs 10000] [--rounds 20]

The runs are entered in the register of the stack that runs here, half of them of one plan, and removed at the end; none
of them has a report. Prints a Markdown row a page: bytes of page, style and script; milliseconds until the server had
answered and until the first contentful paint, with a cold cache; and of `GET /runs/{id}`, which the script asks every
2 s. Medians and the slowest of the rounds, on one machine, through the signing server and the emulator. Then a row for
each of the API's requests, signed, one after the other: p50 and p99 of ten times as many.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from playwright.sync_api import sync_playwright

from stepbench.contracts.runs import RunRecord
from stepbench.records.storage.run_register import RunRegister
from stepbench_tools.local.dashboard import start_dashboard
from stepbench_tools.local.environment import is_up
from stepbench_tools.local.paths import find_paths
from stepbench_tools.local.stack import Upstream, emulator_session, local_stack
from stepbench_tools.local.state import read_state

if TYPE_CHECKING:
    from collections.abc import Sequence

    from playwright.sync_api import Browser

PLANS = ("bench-nightly", "bench-weekly")
STARTED = datetime(2026, 1, 1, tzinfo=UTC)
PAINT = """
() => new Promise((done) => {
  const found = performance.getEntriesByName("first-contentful-paint")[0];
  const told = (entry) => done([performance.getEntriesByType("navigation")[0].responseEnd, entry.startTime]);
  if (found) told(found);
  else new PerformanceObserver((list, observer) => {
    const entry = list.getEntriesByName("first-contentful-paint")[0];
    if (entry) { observer.disconnect(); told(entry); }
  }).observe({ type: "paint", buffered: true });
})
"""
LOOK = """
async (path) => {
  const began = performance.now();
  await (await fetch(path, { cache: "no-store" })).json();
  return performance.now() - began;
}
"""


class Painted(NamedTuple):
    """One visit, in ms since it began, and the bytes that it took."""

    answered_ms: float
    painted_ms: float
    content_bytes: int


def sample_runs(number: int) -> list[RunRecord]:
    """Return runs ten minutes apart, of two plans in turn."""
    return [
        RunRecord(
            run_id=f"bench-{place:06d}",
            team="default",
            plan=PLANS[place % len(PLANS)],
            state="succeeded" if place % 10 else "failed",
            submitted_at=STARTED + timedelta(minutes=10 * place),
            started_at=STARTED + timedelta(minutes=10 * place, seconds=3),
            finished_at=STARTED + timedelta(minutes=10 * place + 4),
            trials=4,
            estimate_usd=0.03,
            actual_usd=0.021,
            expected_s=220,
            verdict="passed",
            headline=("s3: n 200, p50 8.53 ms [8.41, 8.70], p99 21.2 ms, lost 0",),
        )
        for place in range(number)
    ]


def visit(browser: Browser, address: str, path: str) -> Painted:
    """Open a page with a cold cache."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    try:
        page = context.new_page()
        page.goto(address)  # for the cookie; its own caches end with the next line
        context.new_cdp_session(page).send("Network.clearBrowserCache")
        sizes: list[int] = []
        page.on("response", lambda answer: sizes.append(len(answer.body())) if answer.status == 200 else None)  # noqa: PLR2004
        page.goto(f"{address.partition('?')[0].rstrip('/')}{path}")
        answered_ms, painted_ms = page.evaluate(PAINT)
        return Painted(answered_ms, painted_ms, sum(sizes))
    finally:
        context.close()


def look(browser: Browser, address: str, run_id: str, rounds: int) -> list[float]:
    """Return how long the script's own request takes, in ms."""
    context = browser.new_context()
    try:
        page = context.new_page()
        page.goto(address)
        return [float(page.evaluate(LOOK, f"/runs/{run_id}")) for _ in range(rounds)]
    finally:
        context.close()


def ask(upstream: Upstream, run_id: str, rounds: int) -> None:
    """Print how long the API's requests take, in ms."""
    plan = json.dumps({"plan": "quick-unloaded-s3"}).encode()
    bad = json.dumps({"plan": {"name": "bad", "trials": [{"target": {"store": "s3"}, "phases": []}]}}).encode()
    requests = [
        ("GET", "/runs", b""),
        ("GET", f"/runs?plan={PLANS[0]}&state=failed&limit=20", b""),
        ("GET", f"/runs/{run_id}", b""),
        ("GET", "/plans", b""),
        ("GET", "/schema", b""),
        ("POST", "/plans/validate", plan),
        ("POST", "/runs", bad),
    ]
    print("\n| request | status | p50, ms | p99, ms |\n|---|---:|---:|---:|")
    for method, target, body in requests:
        took_ms = []
        for _ in range(10 * rounds):
            began = time.perf_counter()
            status = upstream.send(method, target, {"Content-Type": "application/json"}, body).status
            took_ms.append(1_000 * (time.perf_counter() - began))
        p50, p99 = (float(np.quantile(took_ms, q)) for q in (0.5, 0.99))
        print(f"| `{method} {target}` | {status} | {p50:.1f} | {p99:.1f} |")


def _row(name: str, content_bytes: int, *columns: Sequence[float]) -> str:
    cells = [f"{statistics.median(column):.0f} ({max(column):.0f})" if column else "" for column in columns]
    return f"| {' | '.join([name, f'{content_bytes:,}', *cells])} |"


def main() -> None:
    """Measure, and remove what was entered."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    paths = find_paths(os.environ, Path.cwd())
    if not is_up(paths):
        parser.error("nothing is running here: `stepbench up` starts it")
    state = read_state(paths.home)
    emulator = state.server("emulator")
    endpoint = emulator.endpoint if emulator else ""
    stack = local_stack(state.stack, endpoint)
    found = stack.aws("cloudformation").describe_stack_resource(StackName=stack.name, LogicalResourceId="RunsTable")
    name = found["StackResourceDetail"]["PhysicalResourceId"]
    table = emulator_session().resource("dynamodb", endpoint_url=endpoint).Table(name)
    register, runs = RunRegister(table), sample_runs(options.runs)
    try:
        began = time.monotonic()
        for run in runs:
            register.add(run)
        print(f"{len(runs)} runs entered in {time.monotonic() - began:.0f} s\n")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            _measure(browser, start_dashboard(paths), runs[-1].run_id, options.rounds)
            browser.close()
        ask(Upstream(stack), runs[-1].run_id, options.rounds)
    finally:
        with table.batch_writer() as batch:
            for run in runs:
                batch.delete_item(Key={"pk": f"run#{run.run_id}", "sk": "run"})


def _measure(browser: Browser, address: str, run_id: str, rounds: int) -> None:
    print("| page | bytes | answered, ms: median (slowest) | first paint, ms |\n|---|---:|---:|---:|")
    pages = {"runs": "/", "runs of a plan": f"/?plan={PLANS[0]}", "a run": f"/dashboard/runs/{run_id}",
             "compare": "/dashboard/compare"}  # fmt: skip
    for name, path in pages.items():
        visits = [visit(browser, address, path) for _ in range(rounds)]
        answered, painted = [each.answered_ms for each in visits], [each.painted_ms for each in visits]
        print(_row(name, max(each.content_bytes for each in visits), answered, painted))
    print(_row("a live look (GET /runs/{id})", 0, look(browser, address, run_id, rounds)))


if __name__ == "__main__":
    main()
