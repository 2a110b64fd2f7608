"""A count of all changes to modules in this process: parameters and submodules registered, weights rounded to int8.

Code that caches something about modules checks the count to see whether it is out of date. (torch has no hook for a
parameter that is removed.)
"""

from torch.nn.modules.module import (
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)


class Changes:
    """Counts calls of `note`."""

    def __init__(self) -> None:
        self.count = 0

    def note(self, *what: object) -> None:
        self.count += 1


CHANGES = Changes()
register_module_module_registration_hook(CHANGES.note)
register_module_parameter_registration_hook(CHANGES.note)
