"""A trial of `operations` as a file: its operations, a row each."""

from stepbench.records.export.events import export_events as export

__all__ = ["export"]
