"""The extensions of the documentation are no part of the package; they are found as Sphinx finds them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "extensions"))
