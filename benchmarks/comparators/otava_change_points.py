"""Series of numbers on stdin, as JSON; on stdout of each the change points that apache-otava names, run by run."""

import json
import logging
import sys

from otava.series import Metric, Series

LEAST = 5


def change_points(values: list[float]) -> list[int]:
    """Return the places of change points by otava's defaults."""
    series = Series("runs", None, list(range(len(values))), {"value": Metric()}, {"value": values}, {})
    return [int(point.index) for point in series.analyze().change_points["value"]]


def first_named(values: list[float]) -> list[tuple[int, int]]:
    """Return with how many runs each change point was first named, and its place."""
    seen: dict[int, int] = {}
    for runs in range(LEAST, len(values) + 1):
        for place in change_points(values[:runs]):
            seen.setdefault(place, runs)
    return [(runs, place) for place, runs in seen.items()]


logging.disable(logging.CRITICAL)
json.dump([first_named(values) for values in json.load(sys.stdin)], sys.stdout)
