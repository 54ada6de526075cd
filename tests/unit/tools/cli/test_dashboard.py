from __future__ import annotations

import socket
from typing import Any, cast

import pytest

from stepbench.errors import PlanError
from stepbench_tools.cli.environment import _listening


class Upstream:
    """Implements as much of an upstream as a server holds."""

    def send(self, request: Any) -> None:  # noqa: ANN401 -- nobody asks
        """Answer nothing."""


def test_a_port_that_is_taken_is_named_with_what_to_do() -> None:
    """A bare "[Errno 98]" said neither which, nor how else."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            PlanError, match=rf"--port: cannot be listened on \(.+\) \(got {port}\)\. Name another port"
        ):
            _listening(port, cast("Any", Upstream()))
