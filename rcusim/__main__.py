"""``python -m rcusim``: the command line without an installed script."""

from __future__ import annotations

import sys

from rcusim.cli import main

if __name__ == "__main__":
    sys.exit(main())
