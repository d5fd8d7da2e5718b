"""State of the process around an app: whether it is being stopped, and where it listens."""

from dataclasses import dataclass


@dataclass
class ProcessState:
    """State of the process around an app.

    ``is_stopping``: a signal has come, and each answer is the last one of its connection. ``bound_host``: the name or
    address that the server listens on.
    """

    is_stopping: bool = False
    bound_host: str | None = None
