"""Entry point `HttpApi`: requests of other teams, and of the dashboard."""

from stepbench.api.app import handle
from stepbench.observability import observed

handler = observed(handle)
