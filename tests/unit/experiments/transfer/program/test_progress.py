"""How far a read is, by a clock that a test sets."""

from __future__ import annotations

from itertools import pairwise

import xxhash
from hypothesis import given
from hypothesis import strategies as st

from stepbench.experiments.transfer.program.progress import MIB, MibDigests, Progress, file_digest

ZEROS = memoryview(bytes(2 * MIB))


class Clock:
    """Time and CPU time that stand still unless they are set."""

    def __init__(self) -> None:
        self.now_ns = 1_000
        self.used_ns = 50

    def progress(self) -> Progress:
        """Return a read by this clock."""
        return Progress(lambda: self.now_ns, lambda: self.used_ns)


def test_times_count_from_the_beginning_and_marks_are_of_whole_mibs() -> None:
    """What came before it (name, TCP, TLS) is told apart."""
    clock = Clock()
    progress = clock.progress()
    (part,) = progress.divide(2 * MIB + 7, 1)
    progress.begin()
    for at_ns, size in ((1_010, 1), (1_020, MIB), (1_030, MIB), (1_040, 6)):
        clock.now_ns = at_ns
        part.add(ZEROS[:size])
    clock.now_ns, clock.used_ns = 9_999, 80
    progress.end()
    assert (progress.first_byte_ns, progress.mib_ns, progress.transfer_ns) == (10, (20, 30), 40)
    assert (progress.received_bytes, progress.cpu_ns) == (2 * MIB + 7, 30)


def test_marks_of_several_readers_are_of_the_file_as_a_whole() -> None:
    """The k-th mark is when k MiBs were there, whichever they were."""
    clock = Clock()
    progress = clock.progress()
    first, second = progress.divide(4 * MIB, 2)
    progress.begin()
    for at_ns, part in ((1_010, second), (1_020, first), (1_030, first), (1_040, second)):
        clock.now_ns = at_ns
        part.add(ZEROS[:MIB])
    progress.end()
    assert (progress.mib_ns, progress.first_byte_ns, progress.transfer_ns) == ((10, 20, 30, 40), 10, 40)


def test_parts_are_whole_mibs_and_make_the_file() -> None:
    """Else a MiB would be hashed in halves."""
    parts = Clock().progress().divide(5 * MIB + 3, 4)
    assert [(part.begin, part.size) for part in parts] == [
        (0, MIB),
        (MIB, 2 * MIB),
        (3 * MIB, MIB),
        (4 * MIB, MIB + 3),
    ]


def test_no_more_readers_than_mibs() -> None:
    """A range of nothing cannot be asked for."""
    assert len(Clock().progress().divide(2 * MIB, 64)) == 2


def test_what_never_began_has_no_times() -> None:
    """A connection that was refused is no transfer."""
    progress = Clock().progress()
    assert (progress.first_byte_ns, progress.transfer_ns, progress.mib_ns, progress.cpu_ns) == (None, None, (), 0)


def test_what_did_not_end_has_no_duration_but_its_marks() -> None:
    """They show where it stood still."""
    clock = Clock()
    progress = clock.progress()
    (part,) = progress.divide(3 * MIB, 1)
    progress.begin()
    clock.now_ns, clock.used_ns = 1_500, 60
    part.add(ZEROS)
    assert (progress.transfer_ns, progress.mib_ns, progress.cpu_ns) == (None, (500, 500), 10)


def test_a_read_that_was_given_up_changes_no_more() -> None:
    """Its thread may go on while the row is made: a row that failed must not have the time of a whole file."""
    clock = Clock()
    progress = clock.progress()
    (part,) = progress.divide(2 * MIB, 1)
    progress.begin()
    clock.now_ns = 1_010
    part.add(ZEROS[:MIB])
    given_up = progress.given_up()
    part.add(ZEROS[MIB:])
    progress.end()
    assert (given_up.received_bytes, given_up.first_byte_ns, given_up.mib_ns) == (MIB, 10, (10,))
    assert (given_up.transfer_ns, given_up.is_done) == (None, False)
    assert (progress.received_bytes, progress.is_done) == (2 * MIB, True)


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
