"""
Task `SeedFiles`: the files that a trial of `transfer` downloads, made where they are not there yet.

Called until `done`; each call goes on for some minutes, and a file that is there with its size and its noted digest is
left as it is, unless a read has found it damaged (`layout.damaged_flag`). It is not read here to find that out: that
would take as long as to make it, and caches would have it before it is measured. The digests of all files of a seed are
kept in the bucket of files, for who plans the reads.
"""

from __future__ import annotations

import errno
import os
import secrets
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from stepbench.contracts.transfer.plan import FILES_SEED
from stepbench.contracts.transfer.rows import SeedFilesInput, SeedFilesOutput
from stepbench.errors import TargetUnavailableError, TargetUnreachableError
from stepbench.experiments.transfer.program.contents import digest_of, pieces
from stepbench.experiments.transfer.program.progress import MIB
from stepbench.experiments.transfer.staging import digest_path, file_path, manifest_key, stored_digests
from stepbench.records.storage import layout
from stepbench.records.storage.run_store import RunStore
from stepbench.stages.target_driver import refuse_if_cancelled
from stepbench.wire.http1.boto import bounded_client

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator

    from stepbench.contracts.transfer.plan import Source, TransferTrial
    from stepbench.services import Services

SEEDER = "seeder"
"""The name of its sign of life: whoever clears up waits for it."""
BUDGET_S = 240
"""No other file is begun after this time in one call; the largest takes some two minutes."""
PART_MIB = 16
"""What is held in memory at a time; S3 takes parts of 5 MiB to 5 GiB, and 10,000 of them."""
_DIGEST = "xxh3"
"""The object's metadata that has it."""
_NOT_FOUND = {"404", "NoSuchKey", "NoSuchBucket", "NotFound"}
_IN_THE_WAY = "Something else stands in the place of a file, and is not ours to remove: look at it, and take it away."
_FORBIDDEN = "Have the folder and what is in it belong to the user that makes the files."
_NO_ROOM = "Make room there, or read smaller files."
_LASTING = {
    **dict.fromkeys((errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ENOTEMPTY, errno.ELOOP), _IN_THE_WAY),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), _FORBIDDEN),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), _NO_ROOM),
}
"""What a second try finds as it was, and what to do about it."""
_FILE_MODE = 0o666
"""The kernel reports which pages of a file are in memory to who may write it (see `sources` of the program)."""


class File(NamedTuple):
    """One file to make. pieces: yields its contents from the beginning."""

    file_mib: int
    digest: str
    pieces: Callable[[], Iterator[bytes]]

    @property
    def path(self) -> str:
        """Return its key, which is its path, too."""
        return file_path(FILES_SEED, self.file_mib)

    @property
    def size(self) -> int:
        """Return its length in bytes."""
        return self.file_mib * MIB


def seed_files(task: SeedFilesInput, services: Services) -> SeedFilesOutput:
    """
    Make what is missing of the trial's files, as long as there is time.

    Raises:
        TargetUnavailableError: the bucket or the folder cannot be written, or the stack has none.
        TrialCancelledError: the trial is to stop; of the file that was under way nothing is left.
    """
    try:
        return _seed_in_time(task, services)
    finally:
        services.table.beat(task.ref.tag, SEEDER, {}, ended=True)


def _seed_in_time(task: SeedFilesInput, services: Services) -> SeedFilesOutput:
    plan = services.trial(task.ref).transfer
    until_ns = services.clock.now_ns() + BUDGET_S * 10**9
    digests = read_digests(services, FILES_SEED)
    for file_mib in sorted(set(plan.file_sizes_mib)):
        if services.clock.now_ns() > until_ns:
            return SeedFilesOutput(done=False)
        _show_life(task.ref.tag, services)
        damaged = _damaged(plan, services, file_mib)
        known = None if damaged else digests.get(file_mib)  # what is kept may be what is wrong
        digest = known or digest_of(FILES_SEED, file_mib)
        file = File(file_mib, digest, partial(_pieces, task.ref.tag, services, file_mib))
        with _as_unavailable():
            _seed_file(plan, services, file, damaged)
        _keep_digest(services, FILES_SEED, file_mib, digest)
        for flag in damaged.values():
            services.table.set_flag(layout.FILES, flag, "")
    return SeedFilesOutput(done=True)


def _damaged(plan: TransferTrial, services: Services, file_mib: int) -> dict[Source, str]:
    """Return the flag of each source from which a read has found the file damaged."""
    endpoints = {"s3": plan.target.endpoint or ""}
    path = file_path(FILES_SEED, file_mib)
    flags = {each: layout.damaged_flag(each, endpoints.get(each, ""), path) for each in plan.sources}
    return {source: flag for source, flag in flags.items() if services.table.flag(layout.FILES, flag)}


def _pieces(tag: str, services: Services, file_mib: int) -> Iterator[bytes]:
    """Yield a file in pieces, and look before each whether the trial is to stop: the largest takes minutes."""
    for piece in pieces(FILES_SEED, file_mib, PART_MIB):
        _show_life(tag, services)
        yield piece


def _show_life(tag: str, services: Services) -> None:
    """Have whoever clears up wait, unless that has begun: it is looked at last. Raises TrialCancelledError."""
    services.table.beat(tag, SEEDER, {})
    refuse_if_cancelled(tag, services)


def read_digests(services: Services, seed: int) -> dict[int, str]:
    """Return the digests of the files of a seed, by size in MiB; of those that have been made so far."""
    return stored_digests(_manifests(services), seed)


def _keep_digest(services: Services, seed: int, file_mib: int, digest: str) -> None:
    """Add one; again, if somebody else has written the manifest meanwhile without it."""
    while (known := read_digests(services, seed)).get(file_mib) != digest:
        document = {str(size): each for size, each in sorted({**known, file_mib: digest}.items())}
        _manifests(services).put_json(manifest_key(seed), document)


def _manifests(services: Services) -> RunStore:
    bucket = services.settings.files_bucket
    if not bucket:
        message = "this stack has no bucket of files: deploy it with one, or set FILES_BUCKET"
        raise TargetUnreachableError(message)
    return RunStore(services.aws("s3"), bucket)


def _seed_file(plan: TransferTrial, services: Services, file: File, damaged: Container[Source]) -> None:
    settings = services.settings
    if "s3" in plan.sources:
        endpoint = plan.target.endpoint
        client = _client_of(endpoint, settings.aws_region) if endpoint else services.aws("s3")
        if endpoint:
            _make_bucket(client, settings.files_bucket)
        if "s3" in damaged or not _is_in_bucket(client, settings.files_bucket, file):
            _upload(client, settings.files_bucket, file)
    if "efs" in plan.sources:
        if not settings.files_folder:
            message = "this stack has no mounted folder of files: deploy it with EFS, or set FILES_FOLDER"
            raise TargetUnreachableError(message)
        folder = Path(settings.files_folder)
        if "efs" in damaged or not _is_in_folder(folder, file):
            _write(folder, file)


@lru_cache(maxsize=4)
def _client_of(endpoint: str, region: str) -> Any:  # noqa: ANN401 -- boto3 clients have no common type
    """Return a client for another server than the stack's S3."""
    addressed = Config(
        s3={"addressing_style": "path"},
        connect_timeout=5,
        read_timeout=30,
        retries={"mode": "standard", "total_max_attempts": 3},
    )
    return bounded_client(boto3.client("s3", endpoint_url=endpoint, region_name=region, config=addressed))


def _make_bucket(client: Any, bucket: str) -> None:  # noqa: ANN401 -- as above
    """Make the bucket of files on another server than the stack's S3, whose own is the template's."""
    try:
        client.head_bucket(Bucket=bucket)
    except ClientError as error:
        if error.response["Error"]["Code"] not in _NOT_FOUND:
            raise
        client.create_bucket(Bucket=bucket)


def _is_in_bucket(client: Any, bucket: str, file: File) -> bool:  # noqa: ANN401 -- as above
    try:
        found = client.head_object(Bucket=bucket, Key=file.path)
    except ClientError as error:
        if error.response["Error"]["Code"] in _NOT_FOUND:
            return False
        raise
    return bool(found["ContentLength"] == file.size and found["Metadata"].get(_DIGEST) == file.digest)


def _upload(client: Any, bucket: str, file: File) -> None:  # noqa: ANN401 -- as above
    """Make the object; of an upload that is killed the bucket's lifecycle rule removes the parts, after a day."""
    where, metadata = {"Bucket": bucket, "Key": file.path}, {_DIGEST: file.digest}
    if file.file_mib <= PART_MIB:
        client.put_object(**where, Body=b"".join(file.pieces()), Metadata=metadata)
        return
    where["UploadId"] = client.create_multipart_upload(**where, Metadata=metadata)["UploadId"]
    try:
        parts = []
        for number, piece in enumerate(file.pieces(), start=1):
            answer = client.upload_part(**where, PartNumber=number, Body=piece)
            parts.append({"PartNumber": number, "ETag": answer["ETag"]})
        client.complete_multipart_upload(**where, MultipartUpload={"Parts": parts})
    except BaseException:
        client.abort_multipart_upload(**where)  # its parts would be paid for
        raise


def _is_in_folder(folder: Path, file: File) -> bool:
    note = folder / digest_path(FILES_SEED, file.file_mib)
    try:
        is_whole = (folder / file.path).stat().st_size == file.size
        return is_whole and note.read_bytes().strip() == file.digest.encode()
    except FileNotFoundError:
        return False


def _write(folder: Path, file: File) -> None:
    """
    Write the file beside its place, and move it there once it is on disk; its digest, which says so, comes last.

    What attempts that were killed have left beside it is removed. One that still writes (its function has timed out,
    since the trial has the lease of the files) fails when it moves its own.
    """
    place = folder / file.path
    place.parent.mkdir(parents=True, exist_ok=True)
    for stale in place.parent.glob(f"{place.name}.*.partial"):
        stale.unlink(missing_ok=True)
    part = place.with_name(f"{place.name}.{secrets.token_hex(4)}.partial")
    try:
        with part.open("wb", buffering=0) as written:
            for piece in file.pieces():
                written.write(piece)
            os.fchmod(written.fileno(), _FILE_MODE)
            os.fsync(written.fileno())
        part.replace(place)
    finally:
        part.unlink(missing_ok=True)
    (folder / digest_path(FILES_SEED, file.file_mib)).write_text(f"{file.digest}\n", encoding="ascii")


@contextmanager
def _as_unavailable() -> Iterator[None]:
    try:
        yield
    except (BotoCoreError, ClientError, OSError) as error:
        message = f"a file could not be made: {error}"
        number = error.errno if isinstance(error, OSError) else None
        if number in _LASTING:
            message = f"{message}. {_LASTING[number]}"
            raise TargetUnreachableError(message) from error
        raise TargetUnavailableError(message) from error
