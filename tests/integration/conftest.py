"""What servers of several stores are started with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stepbench_tools.local.stores.certificates import make_certificates

if TYPE_CHECKING:
    from stepbench_tools.local.stores.certificates import Certificates


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Of a server on loopback, and the authority to trust."""
    return make_certificates(tmp_path_factory.mktemp("certificates"))
