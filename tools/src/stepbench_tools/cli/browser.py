"""A report in the user's browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench_tools.cli.command import argument
from stepbench_tools.cli.streams import write_errors

if TYPE_CHECKING:
    from pathlib import Path

OPEN = argument("--open", action="store_true", help="open the report in your browser")


def open_page(page: Path) -> None:
    """Open a report, or say where it is."""
    import webbrowser

    address = page.resolve().as_uri()
    try:
        opened = webbrowser.open(address)
    except webbrowser.Error:
        opened = False
    if not opened:
        write_errors(f"no browser could be started; the report is {address}")
