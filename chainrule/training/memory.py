"""The memory of this process: the most it has held, and how to keep what it has freed."""

import ctypes
import sys

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

MMAP_THRESHOLD, TRIM_THRESHOLD = -3, -1  # names of glibc's mallopt
LARGEST = (1 << 31) - 1


def keep_freed_memory() -> None:
    """Tell glibc not to give freed blocks back to the system; with another C library this does nothing.

    Otherwise every large temporary of the next step would be paged in anew, which can take a fifth of the time.
    """
    if sys.platform != "linux":
        return
    try:
        library = ctypes.CDLL("libc.so.6")
        library.mallopt(MMAP_THRESHOLD, 1 << 30)
        library.mallopt(TRIM_THRESHOLD, LARGEST)
    except (OSError, AttributeError):  # another C library
        return


def give_back_freed_memory() -> None:
    """Give freed blocks back after all, now and then: where batches differ in shape, what is kept of one seldom fits
    the next, and a process would grow from step to step (SmolLM2 on conversations: to 13 GB, where 4 are in use)."""
    if sys.platform != "linux":
        return
    try:
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    except (OSError, AttributeError):  # another C library
        return


def memory_bytes() -> int:
    """The most memory this process has held so far, in bytes; 0 where the system does not tell, as on Windows."""
    if resource is None:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # macOS counts bytes, others KiB
