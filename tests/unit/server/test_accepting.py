"""The socket that listens: what was accepted is answered, what comes after it is refused and not reset."""

import socket
import sys

import pytest

from contextual_bert.server.accepting import drop_new_connections


@pytest.mark.skipif(sys.platform != "linux", reason="a packet filter of Linux")
def test_the_last_connection_is_served_and_the_next_refused() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    address = listener.getsockname()
    with socket.create_connection(address) as waiting, socket.socket() as late:
        waiting.sendall(b"before")
        drop_new_connections(listener)
        late.settimeout(0.2)
        with pytest.raises(TimeoutError):
            late.connect(address)
        accepted, _ = listener.accept()
        with accepted:
            waiting.sendall(b" and after")
            assert accepted.recv(6) + accepted.recv(10) == b"before and after"
        listener.close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address, timeout=5)
