"""A trial of `trigger` as a file: its events, a row each."""

from stepbench.records.export.events import export_events as export

__all__ = ["export"]
