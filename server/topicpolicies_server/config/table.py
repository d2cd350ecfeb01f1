"""Every option of a server and of a guard, in one table (``declared/``, a module for each section).

An option is declared once; its flag, its environment variable, its key in a file, its help, the sample file and the reference are all
derived from that row.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from functools import cache

from .declared import declared
from .option import PREFIX, Option

FILE_VARIABLE = f"{PREFIX}CONFIG"
"""The environment variable that names the file of options."""
CLIENT_VARIABLES = tuple(
    f"{PREFIX}{name}"
    for name in (
        *("SERVER", "OUTPUT", "TIMEOUT", "ACTOR", "REASON", "TOKEN_FILE"),
        *("CLIENT_TLS", "CLIENT_TLS_CA", "CLIENT_TLS_CERTIFICATE", "CLIENT_TLS_KEY", "CLIENT_TLS_SERVER_NAME"),
    )
)
"""The environment variables of the commands that call a server; they share the prefix, and are no options of a server. ``TLS_CERTIFICATE``
and ``TLS_KEY`` are: hence ``CLIENT_``."""


@cache
def options() -> dict[str, Option]:
    """Returns all options by name, in the order in which they are shown."""
    return {each.name: each for each in declared()}


def nearest(text: str, names: Iterable[str]) -> str | None:
    """Returns the name that was probably meant; None: no name is similar enough."""
    found = difflib.get_close_matches(text.lower().replace("-", "_").lstrip("_"), list(names), 1, 0.75)
    return found[0] if found else None
