"""Collects all tests without running them: ``python -m tests.collecting``. This compiles modules that are new or have changed."""

from __future__ import annotations

import contextlib
import io
import sys

import pytest


def main() -> int:
    """Prints the number of tests, or what is wrong with them; returns pytest's exit status."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        status = int(pytest.main(["--collect-only", "--quiet"]))
    lines = output.getvalue().rstrip().splitlines()
    print("\n".join(lines if status else lines[-1:]))
    return status


if __name__ == "__main__":
    sys.exit(main())
