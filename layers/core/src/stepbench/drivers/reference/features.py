"""What the reference store does: it is ours, so that Stepbench itself can be measured."""

from stepbench.contracts.features import CATEGORIES, Feature, StoreFeatures

_PAGE = "docs/calibration.md"
_KNOWN = {
    "selection": "All writes.",
    "filtering": "None.",
    "execution": "Asynchronous, after a delay that it draws and records.",
    "content": "The record, as written.",
    "destination": "Whoever watches.",
    "delivery": "Once; less or more often, for the share that the plan wants.",
    "order": "By the drawn delays; less, for the share that the plan wants.",
    "batching": "None.",
    "payload": "None.",
}

FEATURES = StoreFeatures(
    data_model="records with known delays",
    trigger="watch",
    features={category: Feature(text=_KNOWN[category], source=_PAGE) for category in CATEGORIES},
)
