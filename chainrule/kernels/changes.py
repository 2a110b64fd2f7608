"""How often a module got a parameter or a part, or a weight its eight bits, anywhere in this process.

Whoever keeps what was found in modules looks again when the count has grown. (Of a parameter that is taken away, torch
tells nobody.)
"""

from typing import Any

from torch.nn.modules.module import (
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)


class Changes:
    def __init__(self) -> None:
        self.count = 0

    def note(self, *what: Any) -> None:
        self.count += 1


CHANGES = Changes()
register_module_module_registration_hook(CHANGES.note)
register_module_parameter_registration_hook(CHANGES.note)
