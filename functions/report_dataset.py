"""Entry point `ReportDataset`: what the API answers about datasets over a span of days."""

import stepbench.compiled  # noqa: F401 -- first: it says for which machine the layers were built
from stepbench.api.datasets import handle
from stepbench.observability import observed

handler = observed(handle)
