"""What the pages of all reports share: their templates with what these use, their style sheet, their two scripts."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from stepbench import digits
from stepbench.contracts.measure import measure_of
from stepbench.costs.price_table import unit_price
from stepbench.experiments.dataflow.report import words as flow_words
from stepbench.experiments.operations import percentiles
from stepbench.experiments.operations import report as operations
from stepbench.experiments.report import headline
from stepbench.experiments.transfer.report import view as transfers
from stepbench.experiments.transfer.report import words as transfer_words
from stepbench.report import (
    boxes,
    changes,
    comparisons,
    costs,
    thresholds,
    verdicts,
    words,
)
from stepbench.report.accounting import accounting_adds_up, accounting_sections, describe_accounting
from stepbench.report.clock_check import MEASURES as CLOCK_MEASURES
from stepbench.report.deliveries import describe_deliveries
from stepbench.report.environment import template_environment
from stepbench.report.figures import javascript, own_file
from stepbench.report.groups import format_point
from stepbench.report.labels import window_label
from stepbench.report.matrix import MAX_FIGURES
from stepbench.report.shares import format_share

MAX_SENTENCES = 4
"""More are folded: a matrix would have more than anyone reads."""
MAX_OPEN_THRESHOLDS = 12
"""More rows are folded: the first are the worst."""
MAX_COLUMNS = 6
"""More trials beside one another are wider than paper."""
PHONE_ROWS, PHONE_SENTENCES = 6, 2
"""A phone shows no more rows of a table and sentences of a list at once; `templates/page.css` counts them, too."""
_LATENESS = ("lateness_ms", "Lateness of the generator", "t1 − t0")  # noqa: RUF001 -- a minus sign
MEASURES = {
    "trigger": (
        ("latency_ms", "Trigger latency", "t4 − t1"),  # noqa: RUF001
        ("after_ack_ms", "After acknowledgement", "t4 − t2"),  # noqa: RUF001
        ("to_event_ms", "Send to the store's event time", "t3 − t1"),  # noqa: RUF001
        ("from_event_ms", "The store's event time to the function", "t4 − t3"),  # noqa: RUF001
        ("response_trigger_ms", "Response time, trigger", "t4 − t0"),  # noqa: RUF001
        ("response_write_ms", "Response time, write", "t2 − t0"),  # noqa: RUF001
        ("service_ms", "Service time, write", "t2 − t1"),  # noqa: RUF001
        _LATENESS,
    ),
    "operations": (
        ("latency_ms", "Service time", "t2 − t1"),  # noqa: RUF001
        ("response_write_ms", "Response time", "t2 − t0"),  # noqa: RUF001
        _LATENESS,
    ),
    "dataflow": (
        ("response_trigger_ms", "End-to-end time", "t4 − t0"),  # noqa: RUF001
        ("latency_ms", "Execution latency", "t4 − t1"),  # noqa: RUF001
        ("after_ack_ms", "After acknowledgement", "t4 − t2"),  # noqa: RUF001
        ("service_ms", "StartExecution", "t2 − t1"),  # noqa: RUF001
        _LATENESS,
    ),
}


@dataclass(frozen=True)
class Script:
    """It holds an inline script, and the hash by which the page's policy allows it."""

    body: Markup
    source: str


def _sentence_case(text: str) -> str:
    return text[:1].upper() + text[1:]


def page_style() -> Markup:
    """Return the style sheet of every page."""
    return Markup(own_file("templates/page.css").read_text("utf-8"))  # noqa: S704 -- our own file


def page_scripts() -> list[Script]:
    """Return the two scripts of every page: what draws, and what has it drawn."""
    return [_script(javascript()), _script(own_file("templates/page.js").read_text("utf-8"))]


def _script(text: str) -> Script:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return Script(Markup(text), f"'sha256-{digest}'")  # noqa: S704 -- our own files and the bundled runtime


_GLOBALS: dict[str, Any] = {
    "accounting_adds_up": accounting_adds_up,
    "accounting_sections": accounting_sections,
    "describe_accounting": describe_accounting,
    "boxes": boxes,
    "changes": changes,
    "clock_measures": CLOCK_MEASURES,
    "comparisons": comparisons,
    "describe_deliveries": describe_deliveries,
    "flow_words": flow_words,
    "digits": digits,
    "headline": headline,
    "max_matrix_figures": MAX_FIGURES,
    "max_columns": MAX_COLUMNS,
    "max_open_thresholds": MAX_OPEN_THRESHOLDS,
    "max_sentences": MAX_SENTENCES,
    "phone_rows": PHONE_ROWS,
    "phone_sentences": PHONE_SENTENCES,
    "measure_of": measure_of,
    "measures": MEASURES,
    "ops": operations,
    "percentiles": percentiles,
    "format_point": format_point,
    "costs": costs,
    "unit_price": unit_price,
    "sentence_case": _sentence_case,
    "describe_kept": thresholds.describe_kept,
    "format_share": format_share,
    "units": {
        "ms": None,
        "ratio": digits.TIMES,
        "s": digits.SECONDS_AS_SUCH,
        "per_minute": digits.PER_MINUTE,
        "clients": operations.CLIENTS,
        "per_s": digits.PER_S,
        "share": operations.SHARE,
        "d": digits.PLAIN,
        "mib_per_s": digits.MIB_PER_S,
    },
    "transfers": transfers,
    "transfer_words": transfer_words,
    "verdict_words": verdicts,
    "window_label": window_label,
    "words": words,
}
"""The modules, functions and constants that the templates use."""


@lru_cache(maxsize=1)
def page_environment() -> Environment:
    """Return the templates of all pages, with what they use."""
    environment = template_environment(PackageLoader("stepbench.report"))
    environment.globals.update(_GLOBALS)
    return environment
