"""
How often the regression detector is wrong, and how soon it is right, on series of runs whose truth is known.

    python -m benchmarks.regressions [--series 200] [--seed 20261124] [--into benchmarks/results]

Each series has 100 scheduled runs. The detector sees them one by one; where it suspects a change, one confirming run is
made, at most one for a scheduled run, and counted. Told are regressions, improvements and drifts; on series without a
change each is a false alarm. apache-otava sees the same scheduled runs, analyses anew after each of them, with its
defaults, and a change point that it has not named before is an alarm.

The detector was tuned on other seeds. apache-otava is no dependency; it is asked through a Python that has it, which
`OTAVA_PYTHON` names, and left out without it.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from benchmarks.command import ROOT, Found, run
from benchmarks.result import Case, Figure, Goal
from benchmarks.run_noise import EARLIEST, KINDS, LATEST, RUNS, Truth, draw_noise

from stepbench.analysis.series_detector import SeriesDetector

if TYPE_CHECKING:
    import argparse

    from benchmarks.run_noise import Kind

QUESTION = "How often does the regression detector raise a false alarm, and how soon does it find a change?"
SERIES, QUICK_SERIES, SEED = 200, 4, 20_261_124
SMALLEST = math.log(1.05)
PEER = "apache-otava 0.8.0, defaults"
MOST_AFTER = 30
"""Runs after a planted change for which a series is followed."""
_LIMIT_S = 1_800
_COMPARATOR = Path(__file__).resolve().parent / "comparators" / "otava_change_points.py"


class Outcome(NamedTuple):
    """The outcome of one series. found: after how many runs, confirming ones included, it was told; 0 for never."""

    values: tuple[float, ...]
    at: int
    alarms: int
    confirming: int
    found: int


def follow(kind: Kind, planted: tuple[float, float] | None, seed: int) -> Outcome:
    """Follow one series; `planted` is the ratio of a shift, and that of a drift per run."""
    rng = np.random.default_rng(seed)
    truth = Truth(int(rng.integers(EARLIEST, LATEST + 1)), *planted) if planted else Truth()
    noise, detector = draw_noise(kind, rng), SeriesDetector(SMALLEST)
    values: list[float] = []
    alarms = confirming = after = found = 0
    for number in range(min(RUNS, truth.at + MOST_AFTER)):
        for confirms in (False, True):
            if confirms and (found or not detector.suspected):
                break
            value = next(noise) + truth.level(number)
            if not confirms:
                values.append(value)
            if found:
                break
            change = detector.add(value)
            confirming += confirms
            after += number >= truth.at
            if change is not None and change.kind != "back":
                if number < truth.at:
                    alarms += 1
                elif change.kind == "worse":
                    found = after
                break
    return Outcome(tuple(values), truth.at, alarms, confirming, found)


def follow_all(kind: Kind, planted: tuple[float, float] | None, asked: argparse.Namespace) -> list[Outcome]:
    """Follow as many series as are asked for."""
    words = [asked.seed, KINDS.index(kind), round(1000 * sum(planted or (0,)))]
    seeds = np.random.SeedSequence(words).generate_state(asked.series)
    return [follow(kind, planted, int(seed)) for seed in seeds]


def measure(asked: argparse.Namespace) -> Found:
    """Measure the four kinds of noise, then what is planted in them."""
    asked.series = asked.series or (QUICK_SERIES if asked.quick else SERIES)
    asked.rounds = 1  # the seeds decide what comes out
    python = os.environ.get("OTAVA_PYTHON", "")
    cases = [_null(f"no change, {kind}", kind, None, asked, python) for kind in KINDS]
    cases.append(_null("shift of 2 %, which is of no interest, normal", "normal", (1.02, 1.0), asked, python))
    cases.append(_planted("shift of 10 %, spikes", (1.1, 1.0), 3, asked, python))
    cases.append(_planted("drift of 1 % a run, spikes", (1.0, 1.01), 15, asked, python))
    notes = [f"{asked.series} series of {RUNS} runs each, seed {asked.seed}."]
    if not python:
        notes.append("apache-otava was not asked: OTAVA_PYTHON names no Python that has it.")
    return Found(tuple(cases), tuple(notes))


def _null(name: str, kind: Kind, planted: tuple[float, float] | None, asked: argparse.Namespace, python: str) -> Case:
    """Count what is told where nothing is to be: without a change, or of one below the minimum effect."""
    outcomes = follow_all(kind, planted, asked)
    hundreds = sum(len(each.values) for each in outcomes) / 100
    alarms = sum(each.alarms + (each.found > 0) for each in outcomes) / hundreds
    theirs = () if not python else (sum(len(own) for own in _otava(python, outcomes)) / hundreds,)
    goal = Goal(of="value", at_most=0.1)
    return Case(
        name=name,
        peer=PEER if python else "",
        figures=(
            Figure(name="false alarms", unit="per 100 runs", ours=(alarms,), peer=theirs, goal=goal),
            Figure(
                name="confirming runs",
                unit="per 100 runs",
                ours=(sum(each.confirming for each in outcomes) / hundreds,),
            ),
        ),
    )


def _planted(name: str, planted: tuple[float, float], within: int, asked: argparse.Namespace, python: str) -> Case:
    outcomes = follow_all("spikes", planted, asked)
    theirs = _otava(python, outcomes) if python else []
    first = [min((at - each.at for at, place in own if place >= each.at - 3 and at > each.at), default=0)
             for own, each in zip(theirs, outcomes, strict=bool(theirs))] if theirs else []  # fmt: skip
    figures = [
        Figure(
            name=f"found within {runs} runs",
            unit="%",
            ours=(_share([each.found for each in outcomes], runs),),
            peer=(_share(first, runs),) if first else (),
            goal=Goal(of="value", at_least=90) if runs == within else None,
        )
        for runs in (3, 5, 10, 15)
    ]
    return Case(name=name, peer=PEER if python else "", figures=tuple(figures))


def _share(found: list[int], within: int) -> float:
    return 100 * sum(0 < each <= within for each in found) / len(found)


def _otava(python: str, outcomes: list[Outcome]) -> list[list[tuple[int, int]]]:
    """Return of each series its change points: with how many runs each was first named, and its place."""
    series = [[math.exp(value) for value in each.values] for each in outcomes]
    done = subprocess.run(
        [python, str(_COMPARATOR)], input=json.dumps(series), capture_output=True, text=True, check=True,
        timeout=_LIMIT_S, cwd=ROOT, env={**os.environ, "PYTHONPATH": ""},
    )  # fmt: skip
    return [[(int(runs), int(place)) for runs, place in own] for own in json.loads(done.stdout)]


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--series", type=int, help=f"of each kind; default {SERIES}, with --quick {QUICK_SERIES}")
    parser.add_argument("--seed", type=int, default=SEED)


if __name__ == "__main__":
    run("regressions", QUESTION, measure, _options)
