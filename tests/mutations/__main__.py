"""
Plant faults one at a time and count which of them the suites find.

    python -m tests.mutations sample --seed 31 --count 70 --out faults.json
    python -m tests.mutations record --suite old --commit 215d137a --pytest="-n 2"
    python -m tests.mutations try faults.json --suite old --commit 215d137a
    python -m tests.mutations together faults.json --suite old --commit 215d137a --pytest="-n 4 --dist=loadscope"
    python -m tests.mutations table faults.json

`try` runs the tests that execute the fault's line; `together` plants what survived it at once, and runs everything.
Each result is a line of `results.jsonl` in the folder; what is there is not tried again. Faults that no test could
notice are named with a reason in `equivalent.json` beside the faults: {"KEY": "reason"}.
"""

from __future__ import annotations

import argparse
import functools
import json
import shlex
import sys
from pathlib import Path
from typing import Any

from tests.mutations.checkout import open_checkout
from tests.mutations.contexts import OPTIONS, RECORDED, Contexts
from tests.mutations.faults import locate, read_faults, sample, write_faults
from tests.mutations.table import SUITES, table
from tests.mutations.trying import Trial, nearest_tests, timed

ROOT = Path(__file__).parents[2]


def main(argv: list[str]) -> None:
    """Run one command."""
    options = build_parser().parse_args(argv)
    options.call(options)


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/stepbench-mutations"), help="scratch")  # noqa: S108
    commands = parser.add_subparsers(required=True)
    choose = commands.add_parser("sample")
    choose.add_argument("--seed", type=int, required=True)
    choose.add_argument("--count", type=int, default=70)
    choose.add_argument("--rooms", nargs="*", default=[], help="these alone")
    choose.add_argument("--out", type=Path, required=True)
    choose.set_defaults(call=run_sample)
    for name, call in (("record", run_record), ("try", run_try), ("together", run_together), ("table", run_table)):
        command = commands.add_parser(name)
        command.set_defaults(call=call)
        if name != "record":
            command.add_argument("faults", type=Path)
        if name != "table":
            command.add_argument("--suite", choices=SUITES, required=True)
            command.add_argument("--commit", default="HEAD", help="whose tests and sources")
            command.add_argument("--tests", nargs="*", default=[], help="folders or files, else all of the suite")
            command.add_argument("--pytest", default="", help="further options of pytest")
            command.add_argument("--only", nargs="*", default=[], help="keys of faults")
            command.add_argument("--bound-s", type=float, default={"try": 900.0}.get(name, 7200.0))
    return parser


def run_sample(options: argparse.Namespace) -> None:
    """Choose faults."""
    faults = sample(ROOT, options.seed, options.count, options.rooms)
    write_faults(options.out, faults)
    _print("\n".join(fault.title for fault in faults))


def run_record(options: argparse.Namespace) -> None:
    """Record which tests execute which line."""
    path = _contexts(options)
    trial = _trial(options)
    arguments = [*trial.options, *OPTIONS, *(options.tests or RECORDED)]
    ran = trial.checkout.run(arguments, bound_s=options.bound_s, environ={"COVERAGE_FILE": str(path)})
    _print("\n".join(f"fails without a fault: {test}" for test in ran.failed) or "recorded")
    if ran.broken:
        sys.exit(f"pytest did not run: see {trial.checkout.root}/out/mutations.log")


def run_try(options: argparse.Namespace) -> None:
    """Try each fault with the tests that execute it."""
    trial, contexts = _trial(options), Contexts(_contexts(options))
    faults = [fault for fault in _wanted(options) if fault.key not in _verdicts(options, "near")]
    places = locate(faults, trial.checkout.root)
    for fault in faults:
        if place := places.get(fault):
            tests = nearest_tests(place, contexts, options.tests or ["tests"])
            result = timed(functools.partial(trial.try_near, fault, place, tests))
            _keep(options, {"fault": fault.key, "stage": "near", "tests": len(tests), **result})
        else:
            _keep(options, {"fault": fault.key, "stage": "near", "verdict": "lost"})


def run_together(options: argparse.Namespace) -> None:
    """Try what survived at once, with everything."""
    near, done = _verdicts(options, "near"), _verdicts(options, "together")
    faults = [fault for fault in _wanted(options) if near.get(fault.key) == "survived" and fault.key not in done]
    for fault, (verdict, test) in _trial(options).try_together(faults, options.tests or ["tests"]).items():
        _keep(options, {"fault": fault.key, "stage": "together", "verdict": verdict, "test": test})


def run_table(options: argparse.Namespace) -> None:
    """Print what was found."""
    _print(table(read_faults(options.faults), _results(options), _equivalent(options)))


def _trial(options: argparse.Namespace) -> Trial:
    options.folder.mkdir(parents=True, exist_ok=True)
    checkout = open_checkout(ROOT, options.folder / options.suite, options.commit)
    return Trial(checkout, [*SUITES[options.suite], *shlex.split(options.pytest)], options.bound_s)


def _wanted(options: argparse.Namespace) -> list[Any]:
    skipped = _equivalent(options)
    faults = [fault for fault in read_faults(options.faults) if fault.key not in skipped]
    return [fault for fault in faults if not options.only or fault.key in options.only]


def _equivalent(options: argparse.Namespace) -> dict[str, str]:
    path = options.faults.with_name("equivalent.json")
    return dict(json.loads(path.read_text())) if path.exists() else {}


def _contexts(options: argparse.Namespace) -> Path:
    return Path(options.folder, f"{options.suite}.coverage")


def _results(options: argparse.Namespace) -> list[dict[str, Any]]:
    path = options.folder / "results.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _verdicts(options: argparse.Namespace, stage: str) -> dict[str, str]:
    lines = [line for line in _results(options) if (line["suite"], line["stage"]) == (options.suite, stage)]
    return {line["fault"]: line["verdict"] for line in lines}


def _keep(options: argparse.Namespace, result: dict[str, Any]) -> None:
    line = json.dumps({"suite": options.suite, **result})
    with (options.folder / "results.jsonl").open("a") as file:
        file.write(line + "\n")
    _print(line)


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
