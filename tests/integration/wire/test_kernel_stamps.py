"""When bytes came in, by the kernel."""

from __future__ import annotations

import socket
import time

from stepbench.wire.kernel_stamps import ask_for_stamps, receive_stamped

MOST_TRIES = 20


def test_what_a_listening_socket_accepts_is_stamped_before_anybody_fetches_it() -> None:
    """A server's thread that starts late is no part of a transfer; Linux begins to stamp a moment after the asking."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        ask_for_stamps(server)
        for _ in range(MOST_TRIES):
            begun_ns = time.time_ns()
            with socket.create_connection(server.getsockname()) as peer:
                peer.sendall(b"x")
                accepted, _ = server.accept()
                with accepted:
                    time.sleep(0.02)
                    late_ns = time.time_ns()
                    data, stamp_ns = receive_stamped(accepted, 10)
            if stamp_ns is not None:
                break
    assert data == b"x"
    assert stamp_ns is not None
    assert begun_ns <= stamp_ns < late_ns
