"""Redis operations over TLS, on the one real server with TLS that needs no building."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.integration.drivers.operations.redis_trials import REDIS, driver_of

from stepbench.contracts.workload import Kind
from stepbench.drivers.protocol import Outcome
from stepbench.errors import TargetUnavailableError
from stepbench.local.certificates import make_certificates
from stepbench.local.processes import terminate
from stepbench.local.valkey import start_redis_with_tls
from stepbench.testing.operable_subject import contents_of, operating, operations_spec

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.stores


@pytest.mark.parametrize("reuse", [True, False])
async def test_tls_is_verified_and_timed(tmp_path: Path, *, reuse: bool) -> None:
    """An authority that has not signed the certificate vouches for nobody; the handshake is a part of its own."""
    store = start_redis_with_tls(tmp_path, make_certificates(tmp_path / "ours"))
    other = make_certificates(tmp_path / "other").authority
    spec = operations_spec({**REDIS, "tls": True}, reuse=reuse)
    try:
        with pytest.raises(TargetUnavailableError, match="certificate verify failed"):
            await driver_of(spec, "unused:1", redis_tls_endpoint=store.endpoint, tls_authority=str(other)).open()
        authority = str(tmp_path / "ours" / "authority.crt")
        driver = driver_of(spec, "unused:1", redis_tls_endpoint=store.endpoint, tls_authority=authority)
        async with operating(driver):
            done = await driver.operate(contents_of(spec).operation(Kind.READ, 1, 0))
            assert (await driver.provider()).startswith("Redis ")
    finally:
        terminate(store.pids)
    assert done.outcome is Outcome.OK
    assert (done.connecting is None) is reuse
    if done.connecting is not None:
        assert done.connecting.tls_ns > 0
        assert done.connecting.authenticate_ns == 0
