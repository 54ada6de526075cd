"""Names and contents of the files: the same for who makes them and who reads them, today and in a year."""

from __future__ import annotations

import pytest

from stepbench.experiments.transfer.program.contents import digest_of, mib_of, pieces
from stepbench.experiments.transfer.program.progress import MIB
from stepbench.experiments.transfer.staging import digest_path, file_path, file_reads, manifest_key

KNOWN = "6f095b3e0801d0b5"


def test_a_file_is_the_same_wherever_it_is() -> None:
    """Key in the bucket and path below the mount."""
    efs, s3 = file_reads(("efs", "s3"), 5, 7, {5: "aa"})
    assert (efs.source, s3.source, efs.path, s3.path) == ("efs", "s3", "files/7/5.bin", "files/7/5.bin")
    assert (efs.file_bytes, efs.digest) == (5 * MIB, "aa")
    assert (manifest_key(7), digest_path(7, 5)) == ("files/7/digests.json", f"{file_path(7, 5)}.xxh3")


def test_a_file_that_was_not_seeded_cannot_be_planned() -> None:
    """Its digest is not known, and a made-up one would fail every read."""
    with pytest.raises(KeyError):
        file_reads(("s3",), 5, 7, {1: "aa"})


def test_contents_are_known_once_and_for_all() -> None:
    """Files that were seeded by an older version must still have the digests that this one computes."""
    assert digest_of(7, 2) == KNOWN


@pytest.mark.parametrize("piece_mib", [1, 2, 16])
def test_pieces_of_any_size_make_the_same_file(piece_mib: int) -> None:
    """Parts of an upload, blocks of a folder's file."""
    whole = b"".join(pieces(7, 3, piece_mib))
    assert whole == b"".join(mib_of(7, 3, place) for place in range(3))
    assert len(whole) == 3 * MIB


def test_no_two_mibs_are_alike() -> None:
    """A store that finds duplicates, or compresses, would not send them."""
    mibs = {mib_of(seed, size, place) for seed in (7, 8) for size in (1, 2) for place in range(size)}
    assert len(mibs) == 6
