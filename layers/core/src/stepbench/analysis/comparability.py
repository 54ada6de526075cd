"""
Which trials differ in one setting only, or in their clients only, however the plan has them; and repeats together.

Their setups are compared (`TrialSummary.setup`), so that trials which the plan writes out are found as those of a
matrix are. In plain Python, since the report's function starts without NumPy.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from stepbench import digits
from stepbench.contracts.across_trials import GroupResult, GroupWindow
from stepbench.contracts.experiment import HEADLINE_QUANTILES, traits_of
from stepbench.contracts.function import describe_package
from stepbench.errors import without_queries
from stepbench.stats.over_runs import mean_over_runs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from stepbench.contracts.measures import WindowResult
    from stepbench.contracts.phase import Phase
    from stepbench.contracts.plan import AnyTrial, TrialSpec
    from stepbench.contracts.result import Scalar, TrialSummary

STORE = "target.store"
SETTINGS = (STORE, "target.tls", "target.cluster", "target.region", "workload.reuse")
Setup = frozenset[tuple[str, "Scalar"]]
_TLS_ALWAYS = frozenset({"dsql"})
_TLS_UNSAID = ("target.tls", None)
"""A trial of DynamoDB that leaves TLS to the endpoint stands beside stores without it, whatever the endpoint has."""
_STORES_OWN = re.compile(r"target\..+")
_ADDRESS = re.compile(r"target\.endpoint")
_GOES_WITH = {STORE: _STORES_OWN, "target.cluster": _ADDRESS, "target.region": _ADDRESS}
"""What differs with a setting of necessity: no two stores have one address, or each other's parameters."""
_CLIENTS = re.compile(r"phases\[[^\]]+\]\.closed\.clients")
_WITH_CLIENTS = re.compile(r"phases\[[^\]]+\]\.closed\.operations|writers|max_concurrency")
"""What may grow with the number of clients."""
ALWAYS = frozenset({"target.tls", "target.cluster", "target.region", "workload.reuse", "writers", "arrivals"})
"""These are in a setup where they have their default, too; all else only where it has not."""
_PLAN_FIELDS = ("experiment", "name", "repeats", "matrix", "published", "seed", "phases", "dataset")
_ARRIVAL_FIELDS = ("record", "find_rate")
_HARNESS_FIELDS = ("log_t4", "drain_limit_s")
_EXCLUDED: dict[str, bool | set[str]] = {**dict.fromkeys((*_PLAN_FIELDS, *_HARNESS_FIELDS), True), "workload": {"seed"}}
"""Phases are flattened apart from the rest."""
_NOT_OF_OPERATIONS: dict[str, bool | set[str]] = dict.fromkeys(_ARRIVAL_FIELDS, True)


def flatten_setup(plan: AnyTrial) -> dict[str, Scalar]:
    """
    Map dotted paths to values: `{"target.store": "redis", "phases[steady].closed.clients": 5, "writers": 1}`.

    Phases that are not measured are left out, but for a change of the store's capacity that outlasts them; that of
    transfers is made of their own fields.
    """
    left_out = _EXCLUDED if plan.workload is None else {**_EXCLUDED, **_NOT_OF_OPERATIONS}
    changed = without_queries(plan.model_dump(mode="json", exclude=left_out, exclude_defaults=True))
    whole = plan.model_dump(mode="json", exclude=left_out)
    always = {path: value for path, value in _flatten(whole) if path in ALWAYS and (path, value) != _TLS_UNSAID}
    phases = {
        path: value
        for phase in (plan.phases if traits_of(plan.experiment).windows else ())
        for path, value in _flatten(_dump_phase(phase), f"phases[{phase.name}]")
    }
    return {**dict(_flatten(changed)), **always, **phases}


def place_in_run(spec: TrialSpec) -> dict[str, Any]:
    """Return the fields of a trial's summary that say what it is a repeat or a point of, and what was set."""
    return {
        "experiment": spec.plan.experiment,
        "group": spec.group or spec.name,
        "base": spec.base,
        "repeat": spec.repeat,
        "point": spec.point,
        "setup": flatten_setup(spec.plan),
    }


def in_plan_order(trials: Sequence[TrialSummary], listed: Sequence[str] = ()) -> list[TrialSummary]:
    """
    Return the trials that went through whole, in the order of the plan.

    Args:
        trials: the run's, which may have been shuffled.
        listed: their groups' names as the plan has them. Others come last, in the order of execution.
    """
    place = {name: number for number, name in enumerate(listed)}
    whole = [trial for trial in trials if not trial.incomplete]
    return sorted(whole, key=lambda trial: (place.get(trial.group or trial.name, len(place)), trial.index))


def goes_with(path: str, setting: str) -> bool:
    """Return whether what stands at a path differs of necessity where the setting does."""
    goes = _GOES_WITH.get(setting)
    return bool(goes and goes.fullmatch(path))


def drop_setting(setup: Mapping[str, Scalar], setting: str) -> Setup:
    """
    Return what trials share that differ in the setting only.

    Of two stores' own parameters nothing is compared but whether there is TLS: a store without that choice has none,
    or, as DSQL, always.
    """
    rest = {path: value for path, value in setup.items() if path != setting and not goes_with(path, setting)}
    if setting == STORE:
        rest["target.tls"] = setup.get("target.tls", setup[setting] in _TLS_ALWAYS)
    return frozenset(rest.items())


def is_clients(path: str) -> bool:
    """Return whether a path is a number of clients, over which trials make a curve."""
    return _CLIENTS.fullmatch(path) is not None


def drop_clients(setup: Mapping[str, Scalar]) -> Setup:
    """Return what trials of one scaling curve share."""
    return frozenset(
        (path, value)
        for path, value in setup.items()
        if not _CLIENTS.fullmatch(path) and not _WITH_CLIENTS.fullmatch(path)
    )


def growth_key(trial: TrialSummary) -> tuple[Setup, str, str]:
    """
    Return what may change along a curve, but not between trials of equally many clients.

    Its writers, concurrency and operations; and which matrix it is of, at which other values.
    """
    grows = frozenset((path, value) for path, value in trial.setup.items() if _WITH_CLIENTS.fullmatch(path))
    return grows, *matrix_key(trial, _CLIENTS)


def matrix_key(trial: TrialSummary, varied: re.Pattern[str]) -> tuple[str, str]:
    """Return the trial's matrix and its other values there; empty strings for a trial that is written out."""
    rest = {path: value for path, value in trial.point.items() if not varied.fullmatch(path)}
    return (trial.base, json.dumps(rest, sort_keys=True)) if trial.point else ("", "")


def format_matrix_point(trial: TrialSummary) -> str:
    """Format the matrix's values but for the clients: `target.tls = true`."""
    return _format_values({path: value for path, value in trial.point.items() if not _CLIENTS.fullmatch(path)})


def format_setup_difference(trial: TrialSummary, others: Sequence[TrialSummary]) -> str:
    """Format what distinguishes a trial's setup from others', but for clients: `workload.mix.read = 1`."""
    return _format_values(
        {
            path: value
            for path, value in trial.setup.items()
            if not _CLIENTS.fullmatch(path) and any(other.setup.get(path) != value for other in others)
        }
    )


def shorten_path(path: str, paths: Sequence[str]) -> str:
    """Shorten a dotted path to its last part, with as many before it as distinguish it from the other paths."""
    parts = path.split(".")
    tails = (".".join(parts[-length:]) for length in range(1, len(parts)))
    others = [f".{other}" for other in paths if other != path]
    return next((tail for tail in tails if not any(other.endswith(f".{tail}") for other in others)), path)


def format_value(value: Any) -> str:  # noqa: ANN401 -- any JSON
    """Format a setting's value: numbers with thousands separated, text as it is, anything else as JSON."""
    if isinstance(value, str):
        return describe_package(value) or value
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "none" if value is None else json.dumps(value, ensure_ascii=False)
    return digits.fixed(value, 0) if value == int(value) else f"{value:.12g}"


def _format_values(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{path} = {json.dumps(value)}" for path, value in values.items())


def _dump_phase(phase: Phase) -> dict[str, Any]:
    if phase.measured:
        return phase.model_dump(mode="json", exclude={"name"}, exclude_defaults=True)
    return phase.model_dump(mode="json", include={"scale"}, exclude_defaults=True)


def _flatten(value: Any, path: str = "") -> Iterator[tuple[str, Scalar]]:  # noqa: ANN401 -- any JSON
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _flatten(inner, f"{path}.{name}".removeprefix("."))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from _flatten(inner, f"{path}[{place}]")
    else:
        yield path, value


def group_results(trials: Sequence[TrialSummary], listed: Sequence[str] = ()) -> tuple[GroupResult, ...]:
    """
    Return one result for each group; none for a plan without repeats and matrix.

    Args:
        trials: the run's.
        listed: the groups' names in the order of the plan. Others come after them, in the order of their first trials.
    """
    if not any(trial.repeat or trial.point for trial in trials):
        return ()
    groups: dict[str, list[TrialSummary]] = {}
    for trial in trials:
        groups.setdefault(trial.group or trial.name, []).append(trial)
    names = sorted(groups, key=lambda name: listed.index(name) if name in listed else len(listed))
    return tuple(_group_result(name, groups[name]) for name in names)


def _group_result(name: str, members: Sequence[TrialSummary]) -> GroupResult:
    runs: dict[tuple[str, str], list[WindowResult]] = {}
    for trial in members:
        for window in trial.windows:
            own = runs.setdefault((window.phase, window.name), [])
            if not trial.incomplete:
                own.append(window)
    windows = [_group_window(key, own) for key, own in runs.items()]
    return GroupResult(
        name=name, trials=tuple(trial.index for trial in members), point=members[0].point, windows=tuple(windows)
    )


def _group_window(key: tuple[str, str], runs: list[WindowResult]) -> GroupWindow:
    return GroupWindow(
        phase=key[0],
        window=key[1],
        runs=len(runs),
        **{name: mean_over_runs([getattr(run.latency_ms, name) for run in runs]) for name in HEADLINE_QUANTILES},
    )
