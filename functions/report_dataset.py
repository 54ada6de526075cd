"""Entry point `ReportDataset`: what the API answers about datasets over a span of days."""

from stepbench.api.datasets import handle
from stepbench.observability import observed

handler = observed(handle)
