"""``python -m bench.plots``."""

from __future__ import annotations

import argparse
import sys

from bench.blocks import DOCUMENT
from bench.plots import __doc__ as about
from bench.plots.drawn import stale, write


def main() -> int:
    """Draws, or checks. Returns 1 if a plot differs from the page."""
    parser = argparse.ArgumentParser(
        prog="python3 dev.py bench plots", description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="draw nothing")
    options = parser.parse_args()
    if not options.check:
        write(DOCUMENT)
    left = stale(DOCUMENT)
    print("\n".join(f"{name} is not what the page says" for name in left) or "All plots are what the page says.")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
