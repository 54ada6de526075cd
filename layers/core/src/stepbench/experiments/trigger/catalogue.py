"""
All stores that a plan may name: what can be measured of each, and what its trigger can do.

The facts are documented ones, by category; they stand beside what a report has measured.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench import digits
from stepbench.contracts.api import StoreInfo
from stepbench.contracts.features import CATEGORIES, CATEGORY_NAMES
from stepbench.contracts.target import target_models
from stepbench.costs.prices import describe_prices, per_million_usd
from stepbench.drivers.registry import features_of
from stepbench.report import document as doc

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.experiment import ExperimentName
    from stepbench.contracts.target import StoreTarget
    from stepbench.report.run import RunView


def store_catalogue(region: str) -> tuple[StoreInfo, ...]:
    """Return them in the order of `Target`, priced as in a region."""
    return tuple(_info(store, model, region) for store, model in target_models().items())


def _info(store: str, model: type[StoreTarget], region: str) -> StoreInfo:
    features = features_of(store)
    return StoreInfo(
        store=store,
        experiments=_experiments(model),
        delivery=model.trigger,
        operations=tuple(sorted(model.operations)),
        features=features,
        usd_per_million=per_million_usd(features.charges, region),
        prices=describe_prices(region),
    )


def _experiments(model: type[StoreTarget]) -> tuple[ExperimentName, ...]:
    offered: tuple[tuple[ExperimentName, object], ...] = (
        ("trigger", model.trigger),
        ("operations", model.operations),
        ("dataflow", model.holds_blobs),
    )
    return tuple(name for name, has in offered if has)


def describe_charges(info: StoreInfo) -> str:
    """Return what a million events of 1 kB cost, the write and the trigger, without the function."""
    notes = "; ".join(charge.note for charge in info.features.charges if charge.note)
    if info.usd_per_million is None:
        return "Nothing by the event: its servers cost by the hour."
    return f"{digits.dollars(info.usd_per_million)} with the write, without the function" + (
        f" ({notes})." if notes else "."
    )


def feature_rows(info: StoreInfo) -> Iterator[tuple[str, str, str]]:
    """Yield category, fact and source of a store's trigger; the reason, of a store without one."""
    features = info.features
    if features.without is not None:
        yield "Trigger", features.without.text, features.without.source
        return
    for category in CATEGORIES:
        feature = features.features[category]
        yield CATEGORY_NAMES[category], feature.text, feature.source
    yield "Price per million", describe_charges(info), info.prices


def features_section(run: RunView) -> doc.Section | None:
    """Return what the triggers of a run can do, folded, a store after the other; None of a run without a trigger."""
    measured = {trial.store for trial in run.summary.trials if trial.experiment == "trigger"}
    found = [info for info in store_catalogue(run.manifest.region) if info.store in measured and info.features.trigger]
    if not found:
        return None
    folds = tuple(doc.Fold(f"{info.store}: {info.features.trigger}", (_terms(info),)) for info in found)
    command = doc.Span("stepbench stores --details", "code")
    note = ("As the services document it, nothing measured; ", command, " has a source for each line.")
    return doc.Section("features", "What the triggers can do", (*folds, doc.Sentence(note, "note")), link="Features")


def _terms(info: StoreInfo) -> doc.Terms:
    return doc.Terms(tuple(doc.Term(name, (doc.Sentence(text),)) for name, text, _ in feature_rows(info)))
