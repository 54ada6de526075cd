"""The report of a dataset of transfers over a span of days, as a page like a run's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup

import stepbench
from stepbench.report.figures import json_for_script, page_data
from stepbench.report.page_templates import page_environment, page_scripts, page_style
from stepbench.report.transfer_figures import NAMES

if TYPE_CHECKING:
    from stepbench.report.transfers import TransferView


def render_dataset(view: TransferView, span: str = "") -> str:
    """
    Render the whole page.

    Args:
        view: what the dataset shows; its label is the dataset's name.
        span: the days that were asked for, in words; empty for all.
    """
    return (
        page_environment()
        .get_template("dataset.html.j2")
        .render(
            view=view,
            span=span,
            names=NAMES,
            version=stepbench.__version__,
            style=page_style(),
            scripts=page_scripts(),
            page_data=Markup(json_for_script(page_data(list(view.figures.drawings)))),  # noqa: S704 -- escaped for its place
        )
    )
