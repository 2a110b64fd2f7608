"""What a process has held, told where the system tells it."""

import importlib
import sys

import pytest

from chainrule.training import memory


def test_the_most_this_process_has_held():
    before = memory.memory_bytes()
    block = bytearray(64 << 20)
    block[::4096] = b"x" * len(block[::4096])
    assert before > 1 << 20
    assert memory.memory_bytes() >= before
    assert memory.memory_bytes() >= len(block)


def test_it_is_0_on_a_system_that_does_not_tell(monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "resource", None)
        importlib.reload(memory)
        assert memory.memory_bytes() == 0
    importlib.reload(memory)
    assert memory.memory_bytes() > 0
