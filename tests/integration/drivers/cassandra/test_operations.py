"""CassandraOperations against a real node: the contract, and what Cassandra alone has."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.drivers.cassandra.conftest import ask, connection_to
from tests.integration.drivers.subjects import ServedSubject, UnencryptedOperations
from tests.support.contracts.operations import OperationsContract
from tests.support.contracts.operations_subject import (
    CLIENTS,
    Stored,
    contents_of,
    operating,
    operations_spec,
    until_operated,
)
from tests.support.listening import listening_addresses

from stepbench.clock import AnchoredClock
from stepbench.contracts.workload import Kind
from stepbench.drivers.access import ServerLimits
from stepbench.drivers.cassandra.access import keyspace_of
from stepbench.drivers.cassandra.operations import CassandraOperations
from stepbench.model.pending import perform
from stepbench.model.request import Outcome
from stepbench.settings import Settings
from stepbench.wire.cql.answers import Row
from stepbench.wire.cql.connection import CqlRefusedError
from stepbench.workload.choices import INSERTED
from stepbench.workload.products import FIELD_BYTES
from stepbench_tools.local.stores.certificates import make_certificates

if TYPE_CHECKING:
    from stepbench.contracts.plan import TrialSpec
    from stepbench_tools.local.stores import LocalStore
    from stepbench_tools.local.stores.certificates import Certificates

pytestmark = pytest.mark.stores
INSERTS = {"mix": {"insert": 1}}


class CassandraSubject(ServedSubject):
    """A node, read by statements of the tests' own, which are sent as text."""

    target: dict[str, Any] = {"store": "cassandra"}  # noqa: RUF012 -- the TriggerSubject protocol's attribute

    def __init__(self, endpoint: str, authority: str) -> None:
        super().__init__(endpoint)
        self._authority = authority

    def build(self, spec: TrialSpec, endpoint: str, limit_s: float | None = None) -> CassandraOperations:
        """See `ServedSubject`."""
        limits = ServerLimits(2.0, limit_s, 30.0) if limit_s else ServerLimits()
        settings = Settings(
            results_table="", results_bucket="", cassandra_endpoint=endpoint, tls_authority=self._authority
        )
        return CassandraOperations(spec, settings, AnchoredClock(), limits=limits)

    async def read_back(self, spec: TrialSpec, key: str) -> Stored | None:
        """Return the whole row."""
        product = spec.plan.workload is not None and spec.plan.workload.record.shape == "product"
        columns = ", ".join(f'"{name}"' for name in FIELD_BYTES) if product else "value"
        found = await self.ask(f"SELECT {columns} FROM {keyspace_of(spec.tag)}.records WHERE key = '{key}'")  # noqa: S608
        if not found:
            return None
        values = [value or b"" for value in found[0]]
        return dict(zip(FIELD_BYTES, map(bytes.decode, values), strict=True)) if product else values[0]

    async def leftovers(self, spec: TrialSpec) -> list[str]:
        """Return keyspaces, and keys of the table."""
        named = [
            (row[0] or b"").decode() for row in await self.ask("SELECT keyspace_name FROM system_schema.keyspaces")
        ]
        mine = [name for name in named if spec.tag.replace("-", "_") in name]
        keys = [row for name in mine for row in await self.ask(f"SELECT key FROM {name}.records")]  # noqa: S608
        return mine + [(row[0] or b"").decode() for row in keys]

    async def ask(self, statement: str) -> list[Row]:
        """Return what a statement finds."""
        return await ask(self.upstream, statement)


@pytest.fixture(scope="module")
def subject(server: LocalStore, certificates: Certificates) -> CassandraSubject:
    """Return the module's node."""
    return CassandraSubject(server.endpoint, str(certificates.authority))


class TestCassandraOperations(UnencryptedOperations, OperationsContract):
    """The contract."""


def test_it_listens_on_loopback_only(server: LocalStore) -> None:
    """The machine may have a public address."""
    assert {address.rpartition(":")[0] for address in listening_addresses(server.pids)} <= {
        "127.0.0.1",
        "::ffff:127.0.0.1",
    }


async def test_the_provider_is_named_with_its_version(subject: CassandraSubject, server: LocalStore) -> None:
    """The report's first line on what was measured."""
    driver = subject.operable(operations_spec(subject.target))
    assert await driver.provider() == f"Apache Cassandra {server.version.split()[0]}"


@pytest.mark.parametrize("reuse", [True, False])
async def test_operations_over_tls(subject: CassandraSubject, *, reuse: bool) -> None:
    """The certificate is verified; without reuse, the handshake and the login have times of their own."""
    spec = operations_spec(subject.target | {"tls": True, "consistency": "local_quorum"}, reuse=reuse)
    contents = contents_of(spec)
    async with operating(subject.operable(spec)) as driver:
        operated = await perform(driver, contents.operation(Kind.READ_MODIFY_WRITE, 1, 5))
    assert (operated.outcome, operated.error) == (Outcome.OK, "")
    if operated.connecting is not None:
        assert min(operated.connecting) > 0
        assert sum(operated.connecting) == operated.t2_ns - operated.t1_ns


async def test_a_stranger_is_refused_with_the_servers_word(subject: CassandraSubject) -> None:
    """A wrong password is not taken for a store that is down."""
    with pytest.raises(CqlRefusedError, match="BadCredentials"):
        async with connection_to(subject.upstream, login=("nobody", "wrong")):
            pass


async def test_a_certificate_of_another_authority_is_not_trusted(
    subject: CassandraSubject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Otherwise TLS would protect from nobody."""
    other = make_certificates(tmp_path_factory.mktemp("others"))
    spec = operations_spec(subject.target | {"tls": True}, reuse=False)
    driver = CassandraSubject(subject.upstream, str(other.authority)).operable(spec)
    operated = await perform(driver, contents_of(spec).operation(Kind.READ, 0, 0))
    assert operated.outcome is Outcome.FAILED
    assert operated.error == "tls: CERTIFICATE_VERIFY_FAILED"


async def test_too_few_replicas_are_a_refusal(subject: CassandraSubject) -> None:
    """`Unavailable` says that nothing was begun; a quorum of three copies is not to be had on one node."""
    spec = operations_spec(
        subject.target | {"consistency": "local_quorum", "replication": 3}, records=0, workload=INSERTS
    )
    async with operating(subject.operable(spec)) as driver:
        operated = await perform(driver, contents_of(spec).operation(Kind.INSERT, INSERTED, 0))
    assert (operated.outcome, operated.error) == (Outcome.FAILED, "Unavailable")


async def test_a_table_that_is_gone_is_a_refusal_and_comes_back(subject: CassandraSubject) -> None:
    """A node that was started anew knows no prepared statement either: the next connection prepares again."""
    spec = operations_spec(subject.target)
    read = contents_of(spec).operation(Kind.READ, 0, 0)
    async with operating(subject.operable(spec)) as driver:
        await subject.ask(f"DROP KEYSPACE {keyspace_of(spec.tag)}")
        gone = await perform(driver, read)
        again = subject.operable(spec)
        await again.prepare()
        await again.close()
        after = await until_operated(driver, read)
    assert gone.outcome is Outcome.FAILED
    assert gone.error in {"Invalid", "Unprepared"}
    assert after[-1].outcome is Outcome.OK


async def test_a_scan_finds_as_many_rows_as_it_asks_for(subject: CassandraSubject) -> None:
    """Rows come in the order of tokens; a scan that stopped early would be fast."""
    spec = operations_spec(subject.target)
    contents = contents_of(spec)
    table = f"{keyspace_of(spec.tag)}.records"
    async with operating(subject.operable(spec)) as driver:
        ordered = [row[0] for row in await subject.ask(f"SELECT key FROM {table}")]  # noqa: S608
        first = next(number for number in range(25) if contents.preloaded(number).key.encode() == ordered[0])
        operated = await perform(driver, contents.operation(Kind.SCAN, first, 0, rows=10))
    assert len(ordered) == 25
    assert operated.outcome is Outcome.OK


async def test_open_loop_operations_share_a_connection(subject: CassandraSubject) -> None:
    """Answers overtake each other there; each must find its own."""
    spec = operations_spec(subject.target)
    contents = contents_of(spec)
    async with operating(subject.operable(spec)) as driver:
        offers = [contents.operation(Kind.READ, INSERTED + n if n % 3 == 0 else n % 25, 0) for n in range(120)]
        ended = await asyncio.gather(*map(partial(perform, driver), offers))
    assert [each.outcome is Outcome.OK for each in ended] == [n % 3 != 0 for n in range(120)]
    assert CLIENTS > 1
