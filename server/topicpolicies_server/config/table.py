"""Every option of a server and of a guard, in one table (``declared/``, a module for each section).

An option stands there once; its flag, its environment variable, its key in a file, the help, the sample file and the reference are made of
that.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from functools import cache

from .declared import declared
from .option import PREFIX, Option

FILE_VARIABLE = f"{PREFIX}CONFIG"
"""The environment variable that names the file of options."""
CLIENT_VARIABLES = tuple(PREFIX + name for name in ("SERVER", "OUTPUT", "ACTOR", "REASON", "TOKEN_FILE"))
"""The environment variables of the commands that call a server."""


@cache
def options() -> dict[str, Option]:
    """All options by their names, in the order in which they are shown."""
    return {each.name: each for each in declared()}


def nearest(text: str, names: Iterable[str]) -> str | None:
    """The name that was meant, if one is near."""
    found = difflib.get_close_matches(text.lower().replace("-", "_").lstrip("_"), list(names), 1, 0.75)
    return found[0] if found else None
