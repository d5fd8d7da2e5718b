"""The socket that listens: it takes connections as long as there is room, and survives a lack of descriptors.

asyncio's own loop logs an error for each place of the backlog when descriptors run out, and starts anew with twice as
many attempts a second later.
"""

import asyncio
import ctypes
import errno
import resource
import socket
import struct
import sys
from collections.abc import Callable
from contextlib import suppress

from contextual_bert.server.connections import ConnectionLimit, raw_response
from contextual_bert.server.middleware import new_request_id
from contextual_bert.server.problems import ProblemError

BACKLOG = 2048
_AT_ONCE = 64
_RESERVED_DESCRIPTORS = 128  # for the run, the catalogue and the log, and for connections that are about to close
_SECONDS_TO_RECOVER = 0.5
_ATTACH_FILTER, _BPF_RETURN = 26, 6  # of Linux's asm-generic/socket.h and linux/bpf_common.h
_LACKS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


def room_for_connections(wanted: int) -> int:
    """Return how many connections the process may have open, after raising its limit of descriptors if need be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + _RESERVED_DESCRIPTORS
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    most = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        soft = most
    return min(wanted, max(soft - _RESERVED_DESCRIPTORS, soft // 2, 1))


def drop_new_connections(listener: socket.socket) -> None:
    """Let the system take no more connections of a listening socket; on Linux, elsewhere this does nothing.

    What comes between the last that is accepted and the end of the socket would be reset. A packet filter of one
    instruction, "keep 0 bytes", drops it: the client asks again, and is refused.
    """
    if sys.platform != "linux":
        return
    instruction = ctypes.create_string_buffer(struct.pack("HBBI", _BPF_RETURN, 0, 0, 0))
    with suppress(OSError):
        listener.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, struct.pack("HP", 1, ctypes.addressof(instruction)))


class Acceptor:
    """Accepts the connections of one listening socket.

    Args:
        listener: the socket.
        make_protocol: called for each connection.
        limit: says whether there is room.
        is_shared: whether other processes accept from the socket, too. Then one connection is taken at a time, so that
            each process gets its share, and nothing is done to the socket at the end.
    """

    def __init__(
        self,
        listener: socket.socket,
        make_protocol: Callable[[], asyncio.BaseProtocol],
        limit: ConnectionLimit,
        *,
        is_shared: bool = False,
    ) -> None:
        self._listener, self._make_protocol, self._limit = listener, make_protocol, limit
        self._loop = asyncio.get_running_loop()
        self._coming: set[asyncio.Task[object]] = set()
        self._retry: asyncio.TimerHandle | None = None
        self._is_open, self._is_shared = True, is_shared
        listener.setblocking(False)
        self._loop.add_reader(listener.fileno(), self._accept)

    @property
    def num_coming(self) -> int:
        """Number of accepted connections that have no protocol yet."""
        return len(self._coming)

    async def finish(self) -> None:
        """Take what the system has accepted, then close the socket: what waits in it would be reset."""
        if not self._is_open:
            return
        self._is_open = False
        if self._retry is not None:
            self._retry.cancel()
        self._loop.remove_reader(self._listener.fileno())
        if not self._is_shared:
            drop_new_connections(self._listener)
        for _ in range(BACKLOG):  # bounded, should somebody never stop connecting
            if not self._accept():
                break
            await asyncio.sleep(0)
        self._listener.close()

    def _accept(self) -> bool:
        """Accept some of the connections that wait; return whether there may be more."""
        for _ in range(1 if self._is_shared else _AT_ONCE):
            if self.num_coming and not self._limit.has_room(num_coming=self.num_coming):
                return True  # the next turn of the loop knows them, and can close one that waits
            try:
                client, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError):
                return False
            except OSError as error:
                if error.errno not in _LACKS:
                    continue  # of this connection alone: its client has gone
                self._recover(error)
                return False
            if not self._limit.make_room():
                self._limit.note_closed("refused")
                with client, suppress(OSError):
                    client.setblocking(False)
                    client.send(raw_response(_full(), new_request_id()))
                continue
            client.setblocking(False)
            task = self._loop.create_task(self._loop.connect_accepted_socket(self._make_protocol, client))
            self._coming.add(task)
            task.add_done_callback(self._arrived)
        return True

    def _arrived(self, task: "asyncio.Task[object]") -> None:
        self._coming.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._limit.log.warn("a connection failed", problem=str(error))

    def _recover(self, error: OSError) -> None:
        """Close connections that wait, and try again soon."""
        self._limit.log.warn("cannot accept connections", problem=str(error))
        for _ in range(_AT_ONCE):
            if not self._limit.close_waiting("descriptors"):
                break
        if self._is_open:
            self._loop.remove_reader(self._listener.fileno())
            self._retry = self._loop.call_later(
                _SECONDS_TO_RECOVER, self._loop.add_reader, self._listener.fileno(), self._accept
            )


def _full() -> ProblemError:
    detail = "All connections of the server are in use. Try again."
    return ProblemError("not-ready", detail, headers={"Retry-After": "1"})
