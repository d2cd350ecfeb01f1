"""Collects all tests and runs none: ``python -m tests.collecting``. What was never compiled, or has changed, is compiled by that."""

from __future__ import annotations

import contextlib
import io
import sys

import pytest


def main() -> int:
    """Says how many tests there are, or what is wrong with them; pytest's exit status."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        status = int(pytest.main(["--collect-only", "--quiet"]))
    lines = said.getvalue().rstrip().splitlines()
    print("\n".join(lines if status else lines[-1:]))
    return status


if __name__ == "__main__":
    sys.exit(main())
