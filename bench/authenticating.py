"""The cost of authenticating and authorizing a call: in a loop, and with none of the code and data in the processor's caches.

    python -m bench.authenticating

Between two calls that come alone, gRPC and the kernel push the code and data for a call out of the caches, so a real call costs something
between the two figures. They are medians of microseconds of wall-clock time per call, with a token that was verified before, beyond the
time of a server without authentication.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt

from bench.permitting import ROLES, SECRET
from topicpolicies_server.access import NOBODY, Permission
from topicpolicies_server.access.grants import Grants
from topicpolicies_server.access.identification import Identification
from topicpolicies_server.access.keys import secret_key
from topicpolicies_server.access.roles_file import RolesFile
from topicpolicies_server.access.tokens import TokenRules, Tokens
from topicpolicies_server.files import Reloader
from topicpolicies_server.rpc.answers import permitted
from topicpolicies_server.rpc.requests import author_of

_ROUNDS = 300
_CACHES = 24 << 20
"""Bytes that are copied to push everything else out of the caches."""


class _Call:
    """A call with a token, as gRPC presents it: its metadata are new objects each time."""

    method = "UpdatePolicy"
    trace = None

    def __init__(self) -> None:
        token = jwt.encode({"sub": "changer"}, SECRET, algorithm="HS256")
        self.metadata = (("user-agent", "grpc-python-asyncio"), ("authorization", f"Bearer {token}"))
        self.caller = NOBODY


def measure(ask: Callable[[Any], object], *, cold: bool) -> float:
    """Returns the microseconds per call."""
    full, other = bytearray(_CACHES), bytearray(_CACHES)
    taken = []
    for _ in range(_ROUNDS):
        call = _Call()
        if cold:
            other[:] = full
        began = time.perf_counter_ns()
        ask(call)
        taken.append((time.perf_counter_ns() - began) / 1_000)
    return statistics.median(taken)


async def main() -> None:
    """Measures, and prints the results."""
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "roles.toml"
        file.write_text(ROLES)
        reloader = Reloader()
        roles = RolesFile(file, reloader)
        await roles.start()
        grants = Grants(roles)
        identification = Identification(tokens=Tokens((secret_key(SECRET),), TokenRules()))

        def asked(call: Any) -> None:
            call.caller = identification.caller(call.metadata)
            author_of(call)
            granted = grants(call.caller, "acme/orders")
            assert isinstance(granted, frozenset)
            permitted(granted, call.caller, "acme/orders", Permission.CHANGE)

        asked(_Call())
        for name, cold in (("in a loop", False), ("with nothing of it in the caches", True)):
            nobody, everybody = (measure(each, cold=cold) for each in (author_of, asked))
            print(f"{name:34}{everybody - nobody:6.1f} us")
        await roles.close()
        await reloader.close()


if __name__ == "__main__":
    asyncio.run(main())
