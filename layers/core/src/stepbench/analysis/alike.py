"""
Trials of operations that are alike in all but one setting, or in all but their clients, however the plan has them.

Alike is what their setups say (`TrialSummary.setup`), so that trials which the plan writes out are found as those of a
matrix are. In plain Python, since the report's function has no NumPy.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepbench.contracts.result import Scalar, TrialSummary

SETTINGS = ("target.store", "target.tls", "target.cluster", "target.region", "workload.reuse")
Setup = frozenset[tuple[str, "Scalar"]]
_TLS_ALWAYS = frozenset({"dsql"})
_STORES_OWN = re.compile(r"target\..+")
_ADDRESS = re.compile(r"target\.endpoint")
_GOES_WITH = {"target.store": _STORES_OWN, "target.cluster": _ADDRESS, "target.region": _ADDRESS}
"""What differs with a setting of necessity: no two stores have one address, or each other's parameters."""
_CLIENTS = re.compile(r"phases\[[^\]]+\]\.closed\.clients")
_WITH_CLIENTS = re.compile(r"phases\[[^\]]+\]\.closed\.operations|writers|max_concurrency")
"""What may grow with the number of clients."""


def in_plan_order(trials: Sequence[TrialSummary], listed: Sequence[str] = ()) -> list[TrialSummary]:
    """
    Those of operations that went through whole.

    Args:
        trials: the run's, which may have been shuffled.
        listed: their groups' names as the plan has them. Others come last, in the order of execution.
    """
    place = {name: number for number, name in enumerate(listed)}
    whole = [trial for trial in trials if trial.experiment == "operations" and not trial.incomplete]
    return sorted(whole, key=lambda trial: (place.get(trial.group or trial.name, len(place)), trial.index))


def but_for_setting(setup: Mapping[str, Scalar], setting: str) -> Setup:
    """
    What trials share that differ in the setting only.

    Of two stores' own parameters nothing is compared but whether there is TLS: a store without that choice has none,
    or, as DSQL, always.
    """
    goes = _GOES_WITH.get(setting)
    rest = {path: value for path, value in setup.items() if path != setting and not (goes and goes.fullmatch(path))}
    if setting == "target.store":
        rest["target.tls"] = setup.get("target.tls", setup[setting] in _TLS_ALWAYS)
    return frozenset(rest.items())


def but_for_clients(setup: Mapping[str, Scalar]) -> Setup:
    """What trials of one scaling curve share."""
    return frozenset(
        (path, value)
        for path, value in setup.items()
        if not _CLIENTS.fullmatch(path) and not _WITH_CLIENTS.fullmatch(path)
    )


def beside_clients(trial: TrialSummary) -> tuple[Setup, str, str]:
    """
    What may change along a curve, but not between trials of equally many clients: they are another experiment then.

    Its writers, concurrency and operations; and which matrix it is of, at which other values.
    """
    grows = frozenset((path, value) for path, value in trial.setup.items() if _WITH_CLIENTS.fullmatch(path))
    return grows, *in_matrix(trial, _CLIENTS)


def in_matrix(trial: TrialSummary, varied: re.Pattern[str]) -> tuple[str, str]:
    """Which matrix it is of, and its other values there; empty for a trial that is written out."""
    rest = {path: value for path, value in trial.point.items() if not varied.fullmatch(path)}
    return (trial.base, json.dumps(rest, sort_keys=True)) if trial.point else ("", "")


def matrix_words(trial: TrialSummary) -> str:
    """The matrix's values but for the clients: `target.tls = true`."""
    return _words({path: value for path, value in trial.point.items() if not _CLIENTS.fullmatch(path)})


def setup_words(trial: TrialSummary, others: Sequence[TrialSummary]) -> str:
    """By what of its setup but the clients a trial differs from others: `workload.mix.read = 1, target.tls = false`."""
    return _words(
        {
            path: value
            for path, value in trial.setup.items()
            if not _CLIENTS.fullmatch(path) and any(other.setup.get(path) != value for other in others)
        }
    )


def _words(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{path} = {json.dumps(value)}" for path, value in values.items())
