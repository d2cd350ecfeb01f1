"""The cost of authenticating and authorizing a call from the caches, as the number of Python functions that are called.

Between two calls, gRPC and the kernel push this code out of the processor's caches, so that each function costs several times what it does
in a loop. The number of functions does not depend on the machine.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

from tests.access.signing import SECRET, token
from topicpolicies_server.access import NOBODY, Permission
from topicpolicies_server.access.authority import ByRoles
from topicpolicies_server.access.identification import Identification
from topicpolicies_server.access.keys import secret_key
from topicpolicies_server.access.roles_file import RolesFile
from topicpolicies_server.access.tokens import TokenRules, Tokens
from topicpolicies_server.core.policies import secrets
from topicpolicies_server.reloading import Reloader
from topicpolicies_server.rpc.identifying import Identifying
from topicpolicies_server.rpc.permitting import Permitting


def functions(call: Callable[[], object]) -> list[str]:
    """Returns the Python functions that a call of ``call`` calls."""
    called: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            called.append(frame.f_code.co_qualname)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return called[1:]


def test_a_cached_token_is_verified_with_one_function_call() -> None:
    door = Identifying(Identification(tokens=Tokens((secret_key(SECRET),), TokenRules())))
    pairs = (("user-agent", "grpc"), ("authorization", f"Bearer {token()}"))
    call: Any = SimpleNamespace(method="UpdatePolicy", caller=NOBODY, metadata=pairs)
    door(call)
    call.caller = NOBODY
    called = functions(lambda: door(call))
    assert call.caller.principal == "alice"
    assert len(called) <= 1, called


async def test_a_cached_permission_is_looked_up_with_one_function_call(tmp_path: Path) -> None:
    path = tmp_path / "roles.toml"
    path.write_text('[[grants]]\nroles = ["alice"]\nnamespaces = ["acme/*"]\npermissions = ["change"]\n')
    reloader = Reloader()
    roles = RolesFile(path, reloader)
    await roles.start()
    permitting = Permitting(ByRoles(roles))
    alice = Identification(tokens=Tokens((secret_key(SECRET),), TokenRules()))
    door = Identifying(alice)
    call: Any = SimpleNamespace(method="UpdatePolicy", caller=NOBODY, metadata=(("authorization", f"Bearer {token()}"),))
    door(call)
    permitting.shown_at_once(call.caller, "acme/orders", Permission.CHANGE)
    found: list[object] = []
    called = functions(lambda: found.append(permitting.shown_at_once(call.caller, "acme/orders", Permission.CHANGE)))
    assert found == [secrets.wire]
    assert len(called) <= 1, called
    await roles.close()
    await reloader.close()
