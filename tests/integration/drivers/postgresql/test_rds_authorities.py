"""Whose signature a server of Amazon RDS needs: the layer that has the authorities, and TLS to such a server."""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from tests.samples.templates import ROOT
from tests.support.contracts.operations_subject import operations_spec

from stepbench.clock import AnchoredClock
from stepbench.drivers.postgresql.operations import PostgresqlOperations
from stepbench.errors import PlanError, TargetUnavailableError
from stepbench.settings import Settings
from stepbench_tools.local.processes import terminate
from stepbench_tools.local.stores.certificates import make_certificates
from stepbench_tools.local.stores.postgresql import discard_postgresql, start_postgresql_with_tls

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from stepbench.drivers.access import Endpoint
    from stepbench_tools.local.stores import LocalStore
    from stepbench_tools.local.stores.certificates import Certificates

pytestmark = pytest.mark.stores
HOST = "bench.cluster-abc.us-east-1.rds.amazonaws.com"
IN_CHINA = "bench.cluster-abc.rds.cn-north-1.amazonaws.com.cn"


def _build(layer: Path, **environ: str) -> tuple[Path, str]:
    """Run the layer's Makefile on a copy, as `sam build` does; return its package, and what it said."""
    shutil.copytree(ROOT / "layers/authorities", layer / "source")
    variables = {**os.environ, "ARTIFACTS_DIR": str(layer / "built"), **environ}
    done = subprocess.run(
        [str(shutil.which("make")), "build-AuthoritiesLayer"], cwd=layer / "source", env=variables, check=True,
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    return layer / "built/python/stepbench_authorities", done.stderr


def test_the_layer_has_a_file_of_each_region_with_what_is_valid_there(tmp_path: Path) -> None:
    """Three kinds of keys of its own, and those of RDS Proxy; what has expired only costs time."""
    package, _ = _build(tmp_path)
    found = {path.stem: ssl.create_default_context(cafile=path).get_ca_certs() for path in package.glob("*.pem")}
    amazon = found.pop("amazon")
    assert "Amazon Root CA 1" in str(amazon)
    assert {"us-east-1", "eu-west-1", "ap-northeast-1", "ap-northeast-3", "us-west-2"} <= found.keys()
    assert len(found) > 20
    for region, certificates in found.items():
        own = [each for each in certificates if f"Amazon RDS {region} Root CA" in str(each["subject"])]
        assert len(own) >= 3, region
        assert len(certificates) == len(own) + len(amazon)


def test_without_npm_the_layer_is_built_and_says_what_it_lacks(tmp_path: Path) -> None:
    """A run on one machine needs neither."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("sh", "mkdir", "touch"):
        (tools / name).symlink_to(str(shutil.which(name)))
    package, said = _build(tmp_path / "layer", PATH=str(tools))
    assert [path.name for path in package.iterdir()] == ["__init__.py"]
    assert "cannot speak TLS to Amazon RDS" in said
    assert "first remove .aws-sam/cache (of `stepbench up`: .stepbench/build)" in said  # which has the empty layer


@pytest.fixture
def signed(tmp_path: Path) -> Certificates:
    """Return a server's certificate with a name in RDS's domain."""
    return make_certificates(tmp_path / "certificates", [x509.DNSName(HOST), x509.DNSName(IN_CHINA)])


@pytest.fixture
def rds(tmp_path: Path, signed: Certificates, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalStore]:
    """Yield a server that every name leads to."""

    async def resolve(_endpoint: Endpoint) -> str:
        return "127.0.0.1"

    monkeypatch.setattr("stepbench.drivers.sql.access.resolve", resolve)
    store = start_postgresql_with_tls(tmp_path / "postgresql", signed)
    yield store
    terminate(store.pids)
    discard_postgresql(tmp_path / "postgresql")


@pytest.fixture
def layer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the package of a layer that has no authorities yet, on Python's path."""
    package = tmp_path / "layer/stepbench_authorities"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(package.parent)
    return package


def _driver(host: str, rds: LocalStore, *, tls: bool = True) -> PostgresqlOperations:
    address, _, path = rds.endpoint.partition("/")
    endpoint = f"{host}:{address.rpartition(':')[2]}/{path}"
    settings = Settings(results_table="t", results_bucket="b", postgresql_endpoint=endpoint)
    return PostgresqlOperations(operations_spec({"store": "postgresql", "tls": tls}), settings, AnchoredClock())


@pytest.mark.parametrize(("host", "region"), [(HOST, "us-east-1"), (IN_CHINA, "cn-north-1")])
async def test_a_server_of_rds_is_verified_with_its_regions_authorities(
    rds: LocalStore, signed: Certificates, layer: Path, host: str, region: str
) -> None:
    """No system's bundle has them."""
    own = layer / f"{region}.pem"
    shutil.copy(signed.authority, own)
    driver = _driver(host, rds)
    await driver.open()
    await driver.warm_up()
    assert "TLSv1.3" in await driver.provider()
    await driver.close()
    shutil.copy(make_certificates(layer.parent / "another").authority, own)
    with pytest.raises(TargetUnavailableError, match="certificate verify failed"):
        await _driver(host, rds).warm_up()


async def test_without_authorities_tls_to_rds_is_refused_with_what_to_do(rds: LocalStore) -> None:
    """Without TLS nothing of the sort is needed."""
    with pytest.raises(
        PlanError, match=r"no authorities of Amazon RDS in us-east-1.*\.aws-sam/cache.*\.stepbench/build.*npm"
    ):
        _driver(HOST, rds)
    driver = _driver(HOST, rds, tls=False)
    await driver.open()
    await driver.close()
