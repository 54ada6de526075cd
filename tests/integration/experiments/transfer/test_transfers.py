"""Files that SeedFiles made, read by the program from the emulator's S3 and from a folder, and faults on the way."""

from __future__ import annotations

import os
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import boto3
import pytest
from tests.samples.records import REF
from tests.samples.transfer_processes import file_read, transfer_spec, transfer_task
from tests.samples.transfer_server import transfer_server
from tests.support.fault_proxy import S3_SLOW_DOWN, Cut, Drop, Fault, Limit, Rule, Throttle, fault_proxy, http1

from stepbench.contracts.transfer.rows import RunTransferInput, SeedFilesInput, TransferRow, TransferRows
from stepbench.experiments.transfer.program.process import Invocation, Process, Sandbox
from stepbench.experiments.transfer.program.progress import MIB
from stepbench.experiments.transfer.staging import file_path, file_reads
from stepbench.records.storage import layout
from stepbench.services import connect
from stepbench.stages.seed_files import read_digests, seed_files

if TYPE_CHECKING:
    from stepbench.contracts.transfer.plan import Source
    from stepbench.services import Services
    from stepbench_tools.local.stores.certificates import Certificates

SIZES_MIB = (1, 20)
"""The larger one is uploaded in two parts."""
SEED = 7


class Scene(NamedTuple):
    """A stack with its files."""

    services: Services
    environ: dict[str, str]

    def task(
        self, *sources: Source, file_mib: int = 20, endpoint: str = "", connections: int = 1, limit_s: int = 60
    ) -> RunTransferInput:
        """Return a process that reads a file of this size from each source."""
        reads = file_reads(sources, file_mib, SEED, read_digests(self.services, SEED))
        task = transfer_task(*reads, endpoint=endpoint, connections=connections, limit_s=limit_s)
        item = task.item.model_copy(update={"bucket": self.services.settings.files_bucket, "block_bytes": MIB})
        return task.model_copy(update={"item": item})

    def run(self, task: RunTransferInput) -> list[TransferRow]:
        """Run it; return the rows that are in the results bucket."""
        Process(task, Invocation(Sandbox(self.environ), "request")).run()
        return list(self.services.runs.get_model(layout.transfer_key(REF, 5, 0), TransferRows).rows)


@pytest.fixture
def scene(services: Services, tmp_path: Path) -> Scene:
    """Have a bucket and a folder with all files."""
    settings = services.settings.model_copy(
        update={"files_bucket": f"{services.settings.results_bucket}-files", "files_folder": str(tmp_path)}
    )
    environ = {name.upper(): str(value) for name, value in settings.model_dump().items() if value != ""}
    boto3.client("s3").create_bucket(Bucket=settings.files_bucket)
    seeded = connect(environ)
    seeded.runs.put_model(layout.trial_key(REF, "trial.json"), transfer_spec(file_sizes_mib=SIZES_MIB))
    assert seed_files(SeedFilesInput(ref=REF), seeded).done
    credentials = {name: os.environ[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
    return Scene(seeded, {**environ, **credentials})


@pytest.mark.emulator
def test_what_was_seeded_is_what_is_read(scene: Scene) -> None:
    """Both sources, one process, digests and all."""
    rows = scene.run(scene.task("efs", "s3"))
    assert [(row.source, row.outcome, row.digest_ok, len(row.mib_ns)) for row in rows] == [
        ("efs", "ok", True, 20),
        ("s3", "ok", True, 20),
    ]
    beats = scene.services.table.beats(REF.tag)
    assert beats["writer#00-0005-0000-00"]["ended"] is True
    assert beats["writer#00-0005-0000-00"]["progress"]["ok"] == 2


@pytest.mark.emulator
def test_seeding_again_changes_nothing(scene: Scene) -> None:
    """Every trial of a run asks for it."""
    client, bucket = boto3.client("s3"), scene.services.settings.files_bucket
    before = client.head_object(Bucket=bucket, Key=file_path(SEED, 20))["LastModified"]
    assert seed_files(SeedFilesInput(ref=REF), scene.services).done
    assert client.head_object(Bucket=bucket, Key=file_path(SEED, 20))["LastModified"] == before


@pytest.mark.emulator
def test_a_file_that_was_changed_in_its_place_is_made_anew(scene: Scene) -> None:
    """Eight bytes of one of a hundred files: its size is right, and so is its noted digest; each later read failed."""
    client, bucket = boto3.client("s3"), scene.services.settings.files_bucket
    folder, key = Path(scene.services.settings.files_folder), file_path(SEED, 20)
    whole = client.head_object(Bucket=bucket, Key=key)
    spoilt = bytearray((folder / key).read_bytes())
    spoilt[5 * MIB : 5 * MIB + 8] = bytes(8)
    client.put_object(Bucket=bucket, Key=key, Body=bytes(spoilt), Metadata=whole["Metadata"])
    (folder / key).write_bytes(spoilt)
    wrong = [("failed", "wrong-digest")] * 2
    assert [(row.outcome, row.error) for row in scene.run(scene.task("efs", "s3"))] == wrong
    assert seed_files(SeedFilesInput(ref=REF), scene.services).done
    assert [(row.outcome, row.error) for row in scene.run(scene.task("efs", "s3"))] == [("ok", "")] * 2


@pytest.mark.emulator
def test_ranges_of_a_real_server_make_the_file(scene: Scene) -> None:
    """It answers 206 with the range that was asked for, and the signature holds."""
    (row,) = scene.run(scene.task("s3", connections=3))
    assert (row.outcome, row.error, row.digest_ok) == ("ok", "", True)


@pytest.mark.emulator
def test_a_cancelled_trial_stops_its_processes(scene: Scene) -> None:
    """The flag is the one that the sweeper sets."""
    scene.services.table.set_flag(REF.tag, layout.CANCELLED, "by a test")
    rows = scene.run(scene.task("efs", "s3"))
    assert [(row.outcome, row.error) for row in rows] == [("unknown", "cancelled")] * 2


class Faulty(NamedTuple):
    """What the proxy does to the download, and what the row says."""

    fault: Fault
    outcome: str
    error: str


FAULTS = {
    "reset in the body": Faulty(Cut("in-answer", after_bytes=3 * MIB), "failed", "connection-reset"),
    "closed in the body": Faulty(Cut("in-answer", "fin", after_bytes=3 * MIB), "failed", "connection-closed"),
    "closed before the answer": Faulty(Cut("before-answer", "fin"), "failed", "connection-closed"),
    "silent for ever": Faulty(Drop("answer"), "failed", "timeout"),
    "throttled": Faulty(Throttle(S3_SLOW_DOWN), "failed", "HTTP 503 SlowDown"),
    "slow": Faulty(Limit(20 * MIB), "ok", ""),
    "too slow": Faulty(Limit(2 * MIB), "failed", "timeout"),
}


@pytest.mark.emulator
@pytest.mark.parametrize("faulty", FAULTS.values(), ids=FAULTS)
def test_a_network_fault_is_a_row(scene: Scene, emulator: str, faulty: Faulty) -> None:
    """By the proxy between the program and the emulator's S3; the next read goes past it."""
    with fault_proxy(emulator, http1) as proxy:
        proxy.follow(Rule(faulty.fault, match=b"GET"))
        (row,) = scene.run(scene.task("s3", endpoint=proxy.url, limit_s=2 if faulty.error == "timeout" else 60))
        proxy.cut()
    assert (row.outcome, row.error) == (faulty.outcome, faulty.error)
    assert (row.transfer_ns is None) == (row.outcome != "ok")


def test_a_file_comes_over_tls_and_only_from_whom_we_trust(certificates: Certificates) -> None:
    """S3 is asked by HTTPS; the handshake is no part of the transfer's time."""
    body = os.urandom(3 * MIB + 5)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.certificate, certificates.key)
    with transfer_server() as plain, transfer_server(context) as secured:
        secured.objects["files/7/2.bin"] = body
        task = transfer_task(file_read(body), endpoint=secured.url)
        for trusted, said in ((True, ("ok", "")), (False, ("failed", "tls: CERTIFICATE_VERIFY_FAILED"))):
            more = {"AWS_CA_BUNDLE": str(certificates.authority)} if trusted else {}
            (row,) = Process(task, Invocation(Sandbox({**plain.environ, **more}), "request")).run().rows
            assert (row.outcome, row.error) == said
