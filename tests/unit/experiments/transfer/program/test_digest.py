"""A file's digest: of its MiBs, whatever pieces they come in."""

from __future__ import annotations

from itertools import pairwise

import xxhash
from hypothesis import given
from hypothesis import strategies as st

from stepbench.experiments.transfer.program.digest import MIB, MibDigests, file_digest

BODY = bytes(range(251)) * (3 * MIB // 251)


def digest_in_pieces(cuts: list[int]) -> str:
    """Return the digest of the body, cut at these places."""
    digests = MibDigests()
    bounds = [0, *sorted(cuts), len(BODY)]
    for begin, end in pairwise(bounds):
        digests.add(memoryview(BODY)[begin:end])
    return file_digest(digests.finish())


def test_it_is_the_hash_of_the_hashes_of_its_mibs() -> None:
    """By the definition, so that another program can check a file."""
    mibs = [BODY[begin : begin + MIB] for begin in range(0, len(BODY), MIB)]
    assert digest_in_pieces([]) == xxhash.xxh3_64_hexdigest(b"".join(xxhash.xxh3_64_digest(mib) for mib in mibs))


@given(st.lists(st.integers(0, len(BODY)), max_size=9))
def test_pieces_make_no_difference(cuts: list[int]) -> None:
    """The network cuts a file as it likes."""
    assert digest_in_pieces(cuts) == digest_in_pieces([])


def test_a_piece_says_how_many_mibs_it_completed() -> None:
    """Each gets a mark."""
    digests, zeros = MibDigests(), memoryview(bytes(3 * MIB))
    assert [digests.add(zeros[:size]) for size in (MIB - 1, 1, 2 * MIB, 5)] == [0, 1, 2, 0]


def test_two_mibs_in_another_order_are_another_file() -> None:
    """A range that came into the wrong place must not pass."""
    digests = MibDigests()
    digests.add(memoryview(BODY)[: 2 * MIB])
    assert file_digest(digests.done) != file_digest(reversed(digests.done))
