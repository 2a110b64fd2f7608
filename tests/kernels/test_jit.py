import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numba

from chainrule.kernels.jit import compiling_seconds, in_parallel, kernel, ranges
from chainrule.kernels.sources import source_fingerprint


def test_ranges_cover_everything_once():
    for size in (0, 1, 100, 1 << 14, (1 << 15) + 1, 10**6):
        parts = ranges(5, 5 + size)
        assert [i for a, b in parts for i in range(a, b)] == list(range(5, 5 + size))


def test_results_come_in_the_order_of_the_arguments():
    assert in_parallel(lambda a, b: a - b, [(5, 1), (7, 2), (1, 1)]) == [4, 5, 0]


def test_compiled_code_is_kept_by_the_source_that_it_is_made_of():

    @kernel
    def double(x):
        return 2 * x

    assert double(4) == 8
    assert double._cache._cache_file._source_stamp == source_fingerprint(Path(__file__))


def test_the_time_of_compiling_is_known():
    began = time.time()

    @numba.njit  # without the cache: compiled anew whenever the test runs
    def inner(x):
        return x + 1

    @numba.njit
    def outer(x):
        return inner(x) * 2

    assert compiling_seconds(began) == 0
    assert outer(3) == 8
    ended, taken = time.time(), compiling_seconds(began)
    assert 0 < taken <= ended - began
    assert outer(4) == 10 and compiling_seconds(began) == taken
    assert compiling_seconds(ended) == 0


def test_kernels_work_where_nothing_can_be_written(tmp_path: Path):
    """A read-only install without a home folder: compiled in memory each time."""
    code = textwrap.dedent("""
        import numba
        from chainrule.kernels.jit import kernel
        real = numba.njit
        def refuse(*arguments, **options):
            if options.get("cache"):
                raise RuntimeError("cannot cache function: no locator available")
            return real(*arguments, **options)
        numba.njit = refuse
        @kernel
        def add(a, b):
            return a + b
        assert add(1, 2) == 3
    """)
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "HOME": str(tmp_path)})
