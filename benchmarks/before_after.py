"""
Whether "is my change slower?" is answered rightly: a handler against a slower one, and against an unchanged copy.

    python -m benchmarks.before_after [--rounds 20] [--work wait compute] [--ms 50] [--slower 0.1] [--repeats 3]

Each round is one plan as docs/your-function.md has it, run by the command line as a user's is: folders whose trials
alternate, `before`, a `slower` one that takes 10 % longer, and an `unchanged` one of the same files; each of the two is
compared with `before`. `wait` is a handler that sleeps, as for a service's answer; `compute` one that works so long on
a core of its own, and shares it with whatever else runs. On this machine's environment, which is started, and left
running. Run by hand: a round, two comparisons, takes a minute and a half on an idle machine.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

CODE = {
    "wait": "import time\n\n\ndef handler(event, context):\n    time.sleep({ms} / 1000)\n",
    "compute": (
        "import hashlib\n\n\ndef handler(event, context):\n"
        "    for _ in range({count}):\n        hashlib.sha256(b'x' * 65_536).digest()\n"
    ),
}
BLOCK = b"x" * 65_536


class Answer(NamedTuple):
    """What a run says of one folder against `before`; the ratio with its interval, if it has one."""

    finding: str
    ratio: float | None
    low: float | None
    high: float | None
    text: str


def plan_of(folders: list[str], repeats: int, events: int) -> dict[str, Any]:
    """Return the plan of one round."""
    phases = [
        {"name": "warm-up", "measured": False, "load": [{"rate_per_s": 10, "count": 10}]},
        {"name": "steady", "load": [{"rate_per_s": 10, "count": events}]},
    ]
    target = {"store": "dynamodb", "function": {"code": folders[0], "handler": "app.handler"}}
    trial = {"target": target, "phases": phases, "repeats": repeats, "matrix": {"target.function.code": folders}}
    return {"name": "before-after", "judge": "handler p50", "trials": [trial]}


def write_handler(folder: Path, work: str, wanted_ms: float, blocks_per_ms: float) -> str:
    """Write a handler that takes so long, and return its folder."""
    folder.mkdir()
    text = CODE[work].format(ms=wanted_ms, count=round(wanted_ms * blocks_per_ms))
    (folder / "app.py").write_text(text)
    return str(folder)


def compare(asked: argparse.Namespace, work: str, blocks_per_ms: float) -> dict[str, Answer]:
    """Run a round, and return what is said of `slower` and of `unchanged`."""
    with tempfile.TemporaryDirectory() as place:
        sides = {"before": asked.ms, "slower": asked.ms * (1 + asked.slower), "unchanged": asked.ms}
        folders = [write_handler(Path(place, name), work, wanted, blocks_per_ms) for name, wanted in sides.items()]
        plan = Path(place, "plan.json")
        plan.write_text(json.dumps(plan_of(folders, asked.repeats, asked.events)))
        command = [sys.executable, "-m", "stepbench_tools.cli", "run", str(plan), "--no-floors", "--quiet"]
        command += ["--out", str(Path(place, "out"))]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
        found = [*Path(place, "out").glob("*/summary.json")]
        if ended.returncode or not found:
            raise SystemExit(ended.stdout + ended.stderr)
        summary = json.loads(found[0].read_text())
    verdicts = [answer_of(each) for each in summary["verdicts"] if each["primary"]]
    return dict(zip(("slower", "unchanged"), verdicts, strict=True))


def answer_of(verdict: dict[str, Any]) -> Answer:
    """Return what a verdict says of the measure that the run is judged by."""
    effect = next(each for each in verdict["effects"] if each["measure"] == verdict["judged"])
    ratio = effect["ratio"] or {}
    return Answer(effect["finding"], ratio.get("value"), ratio.get("low"), ratio.get("high"), verdict["text"])


def blocks_per_ms() -> float:
    """Return how many blocks this machine hashes in a millisecond: the best of many tries, so of an idle core."""
    best_ns = 1 << 62
    for _ in range(50):
        begun_ns = time.perf_counter_ns()
        for _ in range(10):
            hashlib.sha256(BLOCK).digest()
        best_ns = min(best_ns, time.perf_counter_ns() - begun_ns)
    return 10 / (best_ns / 1e6)


def main() -> None:
    """Print a line for each comparison, and for each kind of work how many were answered rightly."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--work", nargs="+", choices=list(CODE), default=["wait"])
    parser.add_argument("--ms", type=float, default=50, help="how long the handler takes (50)")
    parser.add_argument("--slower", type=float, default=0.1, help="by which share the slower one is (0.1)")
    parser.add_argument("--repeats", type=int, default=3, help="trials of each folder (3)")
    parser.add_argument("--events", type=int, default=20, help="measured events a trial, at 10/s (20)")
    asked = parser.parse_args()
    for work in asked.work:
        blocks = blocks_per_ms() if work == "compute" else 0.0
        different: Counter[str] = Counter()
        for place in range(asked.rounds):
            begun_s = time.monotonic()
            for case, answer in compare(asked, work, blocks).items():
                fields = answer._asdict() | {"round_took_s": round(time.monotonic() - begun_s, 1)}
                print(json.dumps({"case": f"{work} {case}", "round": place + 1, **fields}), flush=True)
                different[case] += answer.finding in ({"higher"} if case == "slower" else {"higher", "lower"})
        print(f"{work}, {100 * asked.slower:g} % slower: found in {different['slower']} of {asked.rounds}", flush=True)
        print(f"{work}, unchanged: called different in {different['unchanged']} of {asked.rounds}", flush=True)


if __name__ == "__main__":
    main()
