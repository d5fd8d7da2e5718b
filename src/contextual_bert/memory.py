"""Amount of memory, and the errors that libraries raise when it is short."""

import os


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that there is no memory left, of the machine or of an accelerator.

    Torch has no class for it on a processor: its allocator raises a RuntimeError.

    Example:
        >>> is_out_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4 bytes."))
        True
    """
    words = ("DefaultCPUAllocator", "can't allocate memory", "Cannot allocate memory", "CUDA out of memory")
    is_named = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return is_named or any(each in str(error) for each in words)


def memory_bytes() -> int | None:
    """Return how much memory the machine has, None where the system does not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None
