"""Entry point `HttpApi`: requests of other teams, and of the dashboard."""

import stepbench.compiled  # noqa: F401 -- first: it says for which machine the layers were built
from stepbench.api.app import handle
from stepbench.observability import observed

handler = observed(handle)
