"""The caches of the doors never change a result, however keys, files and the clock have changed since."""

from __future__ import annotations

import itertools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.access.signing import NOW, SECRET, token
from topicpolicies_server.access import NOBODY, Caller, Permission, Way
from topicpolicies_server.access.authority import MOST_FOLLOWS, ByRoles
from topicpolicies_server.access.identification import Identification
from topicpolicies_server.access.keys import secret_key
from topicpolicies_server.access.roles_file import RolesFile, parse
from topicpolicies_server.access.tokens import TokenRules, Tokens
from topicpolicies_server.core.errors import PolicyError
from topicpolicies_server.core.policies import documents, secrets
from topicpolicies_server.reloading import Reloader
from topicpolicies_server.rpc.identifying import Identifying
from topicpolicies_server.rpc.permitting import Permitting

KEYS = (SECRET, bytes(range(32)))
ROLES = ("alice", "bob", "gateway")
NAMESPACES = ("acme/a", "acme/b", "far/away")
PROXIES = frozenset({"gateway"})
LIVES: tuple[int, None] = (4, None)
"""Seconds after which tokens expire; None: never."""
BEGINNINGS = (None, -1)
"""Seconds from which on tokens are valid; None: from any time."""
TOKENS = [
    token(KEYS[key], sub=role, exp=life and NOW + life, nbf=since and NOW + since)
    for key in (0, 1)
    for role in ROLES
    for life in LIVES
    for since in BEGINNINGS
]
SHOWN = [f"Bearer {each}" for each in TOKENS]

shown = st.one_of(st.sampled_from(SHOWN), st.sampled_from(["", "Bearer ", "bearer " + SHOWN[0][7:], SHOWN[0] + " ", SHOWN[0][:-3] + "AAA"]))
metadata = st.lists(
    st.one_of(
        st.tuples(st.just("authorization"), shown),
        st.tuples(st.just("topicpolicies-original-principal"), st.sampled_from(["", *ROLES])),
        st.tuples(st.just("user-agent"), st.just("any")),
    ),
    max_size=3,
)
grants = st.lists(
    st.tuples(
        st.sampled_from([*ROLES, "*"]),
        st.sampled_from(["acme/*", *NAMESPACES]),
        st.sets(st.sampled_from(["read", "change", "secrets"]), min_size=1),
    ),
    max_size=4,
)
call = st.tuples(st.just("call"), metadata, st.sampled_from(NAMESPACES), st.sampled_from([Permission.READ, Permission.CHANGE]))
usual = st.builds(lambda shown: [("authorization", shown)], st.sampled_from([SHOWN[0], SHOWN[1], SHOWN[1], SHOWN[-1]]))
often = st.tuples(st.just("call"), usual, st.sampled_from(NAMESPACES[:2]), st.just(Permission.CHANGE))
steps = st.lists(
    st.one_of(
        call,
        often,
        often,
        often,
        st.tuples(st.just("keys"), st.sampled_from([(0,), (1,), (0, 1), (1, 0)])),
        st.tuples(st.just("roles"), grants),
        st.tuples(st.just("time"), st.sampled_from([1, 2, 5, -2, -5])),
    ),
    min_size=5,
    max_size=40,
)


def file(granted: list[tuple[str, str, set[str]]]) -> str:
    """Returns the text of a file of roles."""
    tables = [
        f"[[grants]]\nroles = [{role!r}]\nnamespaces = [{where!r}]\npermissions = {sorted(what)!r}\n" for role, where, what in granted
    ]
    return "\n".join(tables)


class Doors:
    """The doors that authenticate and authorize a call."""

    def __init__(self, keys: tuple[int, ...], roles: str) -> None:
        self.now = NOW
        self.tokens = Tokens(tuple(secret_key(KEYS[each]) for each in keys), TokenRules())
        self.file = RolesFile(Path("roles.toml"), Reloader())
        self.file._take(parse(roles))
        identification = Identification(tokens=self.tokens, proxy_roles=PROXIES)
        self.door = Identifying(identification, lambda: self.now, lambda: self.now - NOW)
        self.permitting = Permitting(ByRoles(self.file))

    def ask(self, pairs: list[tuple[str, str]], namespace: str, permission: Permission) -> object:
        """Returns the caller of a call and how documents are serialized for it, or the caller and the error of the refusal."""
        asked: Any = SimpleNamespace(method="UpdatePolicy", caller=NOBODY, metadata=tuple(pairs))
        try:
            assert self.door(asked) is None
            wire = self.permitting.shown_at_once(asked.caller, namespace, permission)
        except PolicyError as error:
            return asked.caller, error.kind, error.reason, error.message
        return asked.caller, wire


@settings(max_examples=150, deadline=None)
@given(steps)
def test_doors_with_caches_give_the_same_results_as_new_doors(taken: list[tuple[Any, ...]]) -> None:
    keys, roles = (0, 1), file([("*", "acme/*", {"change"})])
    remembering, now = Doors(keys, roles), NOW
    for step, *about in taken:
        if step == "keys":
            (keys,) = about
            remembering.tokens.take(tuple(secret_key(KEYS[each]) for each in keys))
        elif step == "roles":
            roles = file(about[0])
            remembering.file._take(parse(roles))
        elif step == "time":
            now += about[0]
        else:
            fresh = Doors(keys, roles)
            remembering.now = fresh.now = now
            assert remembering.ask(*about) == fresh.ask(*about)


def test_a_change_of_a_roles_permissions_takes_effect_with_its_next_call() -> None:
    doors = Doors((0,), file([("alice", "acme/a", {"change", "secrets"})]))
    pairs = [("authorization", SHOWN[0])]
    asked = pairs, "acme/a", Permission.CHANGE
    alice = Caller("alice", Way.TOKEN, expires_at=NOW + LIVES[0])
    assert [doors.ask(*asked) for _ in range(2)] == [(alice, documents.wire)] * 2
    doors.file._take(parse(file([("alice", "acme/a", {"change"})])))
    assert doors.ask(*asked) == (alice, secrets.wire)
    doors.file._take(parse(""))
    assert str(doors.ask(*asked)).count("PERMISSION_DENIED")
    doors.file._take(parse(file([("alice", "acme/a", {"change"})])))
    assert doors.ask(*asked) == (alice, secrets.wire)


def test_a_cached_token_is_refused_if_the_clock_is_set_back_to_before_its_beginning() -> None:
    doors = Doors((0,), file([("alice", "acme/a", {"change"})]))
    asked = [("authorization", SHOWN[1])], "acme/a", Permission.CHANGE
    alice = Caller("alice", Way.TOKEN, expires_at=NOW + LIVES[0], begins_at=NOW - 1)
    for now, may in ((NOW, True), (NOW - 1, True), (NOW - 1.1, False), (NOW + 1, True)):
        doors.now = now
        assert (doors.ask(*asked) == (alice, secrets.wire)) is may
        assert str(doors.ask(*asked)).count("The token is not valid yet") == (not may)


def test_cached_permissions_are_bounded_and_refusals_are_not_cached() -> None:
    doors = Doors((0,), file([("alice", "acme/*", {"change"})]))
    alice = Caller("alice", Way.TOKEN)
    for number in range(MOST_FOLLOWS + 10):
        assert doors.permitting.shown_at_once(alice, f"acme/n{number}", Permission.CHANGE) is secrets.wire
    held, most = doors.file.kept()["permissions_of_calls"]
    assert (held, most) == (10, MOST_FOLLOWS)
    for role, where in itertools.product(("alice", "bob"), ("far/away", "far/off")):
        assert str(doors.ask([], where, Permission.CHANGE)).count("CREDENTIALS_MISSING")
        try:
            doors.permitting.shown_at_once(Caller(role, Way.TOKEN), where, Permission.CHANGE)
        except PolicyError:
            continue
        raise AssertionError("a permission that was not granted was found")
    assert doors.file.kept()["permissions_of_calls"] == (10, MOST_FOLLOWS)
