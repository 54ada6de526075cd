"""Names of the files that are downloaded, and where their digests stand: the only place that spells them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.transfer.rows import FileRead
from stepbench.experiments.transfer.program.digest import MIB

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from stepbench.contracts.transfer.plan import Source
    from stepbench.records.storage.run_store import RunStore

Digests = dict[int, str]
"""Digests by file size in MiB."""


def file_path(seed: int, file_mib: int) -> str:
    """Return the key in the bucket of files, which is the path below the mount, too."""
    return f"files/{seed}/{file_mib}.bin"


def digest_path(seed: int, file_mib: int) -> str:
    """Return the path below the mount of the note that a file is there whole: its digest."""
    return f"{file_path(seed, file_mib)}.xxh3"


def manifest_key(seed: int) -> str:
    """Return the key, in the bucket of files, of the digests of all files of a seed: JSON, by size in MiB."""
    return f"files/{seed}/digests.json"


def stored_digests(files: RunStore, seed: int) -> dict[int, str]:
    """
    Return the digests of the files of a seed that have been made, by size in MiB; `files` is their bucket.

    Of a document that is damaged there are none: `SeedFiles` then finds them again from the seed.
    """
    try:
        found = files.find_json(manifest_key(seed)) or {}
        return {int(file_mib): str(digest) for file_mib, digest in found.items()}
    except (ValueError, AttributeError):  # no JSON, no text, or no object
        return {}


def file_reads(sources: Iterable[Source], file_mib: int, seed: int, digests: Mapping[int, str]) -> tuple[FileRead, ...]:
    """
    Return the reads of the file of one size, from each source in this order.

    Raises:
        KeyError: `digests` has none of that size: the file was not seeded.
    """
    path, digest = file_path(seed, file_mib), digests[file_mib]
    return tuple(FileRead(source=source, path=path, file_bytes=file_mib * MIB, digest=digest) for source in sources)
