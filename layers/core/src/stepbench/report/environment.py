"""The environment of all HTML templates: every text that comes from outside is escaped, and controls nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from stepbench.errors import BLANKS, printable

if TYPE_CHECKING:
    from jinja2 import BaseLoader

_BLANKS = f"\r{BLANKS}"
"""Browsers send the lines of a form's field with both, and get them back where the form is shown again."""


def template_environment(loader: BaseLoader) -> Environment:
    """Return an environment for templates of HTML."""
    return Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printed,
    )


def _printed(value: object) -> object:
    """Return what an expression puts into a page: texts as they may be shown, and what is markup already as it is."""
    return printable(value, _BLANKS) if isinstance(value, str) and not isinstance(value, Markup) else value
