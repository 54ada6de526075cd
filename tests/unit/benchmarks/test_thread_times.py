"""A profile by the names of threads."""

from __future__ import annotations

import os

from benchmarks import thread_times


def test_shares_are_of_all_that_was_spent_meanwhile() -> None:
    """By hand: 3 s of reads and 1 s of garbage collection beside 4 s of ours; what is below 3 % is left out."""
    before = {"reads": 1.0, "garbage collection": 5.0, "compaction": 0.1}
    after = {"reads": 4.0, "garbage collection": 6.0, "compaction": 0.2}
    told = thread_times.words(before, after, own_s=4.0)
    assert told == "the load itself 49%, reads 37%, garbage collection 12%"


def test_threads_are_known_by_the_beginnings_of_their_names() -> None:
    """The kernel keeps 15 characters, and numbers tell threads of one pool apart."""
    names = ["MutationStage-12", "GC Thread#1", "C2 CompilerThre", "Native-Transpor", "epollEventLoopG", "main"]
    kinds = ["writes", "garbage collection", "JIT compiler", "requests", "network", "other threads"]
    assert [thread_times._kind(name) for name in names] == kinds


def test_a_process_s_own_times_are_read() -> None:
    """This one has used some."""
    assert sum(thread_times.thread_times_s(os.getpid()).values()) > 0
