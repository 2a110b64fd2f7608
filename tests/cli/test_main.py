"""What the command itself does before any of its subcommands."""

import os
import subprocess
import sys

import pytest


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="only Linux says when a process began")
def test_the_time_of_a_command_begins_with_its_process():
    code = (
        "import time; began = time.time(); time.sleep(0.5)\n"
        "from chainrule.cli.main import started_at\n"
        "print(began - started_at(), time.time() - started_at())"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    before, since = map(float, done.stdout.split())
    assert before > -0.05, "what was loaded later counts from the start of Python on"  # ticks of 10 ms
    assert since >= 0.45
