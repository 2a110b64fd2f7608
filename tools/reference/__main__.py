"""`python -m tools.reference [FOLDER]`: write the reference, to docs/reference unless told otherwise."""

import sys
from pathlib import Path

from tools.reference import FOLDER, write

for path in write(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER):
    print(path)
