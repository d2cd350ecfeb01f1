"""The file of roles: its grants, its errors, and what is in force while it changes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.eventually import eventually
from topicpolicies_server.access import Permission
from topicpolicies_server.access.roles_file import RolesFile, parse
from topicpolicies_server.files import Reloader

GOOD = """
superusers = ["admin"]

[[grants]]
roles = ["reader"]
namespaces = ["acme/*"]
permissions = ["read"]

[[grants]]
roles = ["reader", "changer"]
namespaces = ["acme/orders", "public/*-test"]
permissions = ["change", "history"]

[[grants]]
roles = ["*"]
namespaces = ["public/open"]
permissions = ["watch"]

[[grants]]
roles = ["auditor"]
namespaces = ["*"]
permissions = ["history", "secrets"]
"""


def may(role: str, namespace: str, text: str = GOOD) -> set[str]:
    """Returns the permissions of a role."""
    return {each.value for each in parse(text).permissions(role, namespace)}


def test_a_superuser_may_do_everything_everywhere() -> None:
    assert may("admin", "any/where") == {each.value for each in Permission}


@pytest.mark.parametrize(
    ("role", "namespace", "permissions"),
    [
        ("reader", "acme/stock", {"read"}),
        ("reader", "acme/orders", {"read", "change", "history"}),
        ("changer", "acme/stock", set()),
        ("changer", "acme/orders", {"read", "change", "history"}),
        ("changer", "public/a-test", {"read", "change", "history"}),
        ("changer", "public/a-testing", set()),
        ("changer", "public/open", {"read", "watch"}),
        ("anybody", "public/open", {"read", "watch"}),
        ("anybody", "acme/orders", set()),
        ("auditor", "far/away", {"history", "secrets"}),
        ("reader", "acme2/stock", set()),
        ("reader", "xacme/stock", set()),
        ("", "public/open", set()),
        ("*", "acme/orders", set()),
    ],
)
def test_a_role_has_exactly_the_permissions_that_were_granted(role: str, namespace: str, permissions: set[str]) -> None:
    assert may(role, namespace) == permissions


@pytest.mark.parametrize("pattern", ["*-*-*-*-*/x", "x/*-*-*-*-*x", "x/**********x", "*a*a*a*a*a*/*b*b*b*b*b"])
def test_matching_a_long_name_against_a_pattern_takes_a_short_time(pattern: str) -> None:
    text = f'[[grants]]\nroles = ["*"]\nnamespaces = ["{pattern}"]\npermissions = ["read"]\n'
    began = time.process_time()
    for character in "-ab":
        for namespace in (f"{character * 1_000}/b", f"x/{character * 1_000}", f"{character * 500}/{character * 500}-"):
            assert not may("stranger", namespace, text)
    assert time.process_time() - began < 1.0, "all other calls wait meanwhile"


@settings(max_examples=100)
@given(
    st.text("ab-*", min_size=1, max_size=8), st.text("ab-*", min_size=1, max_size=8), st.text("ab-", max_size=8), st.text("ab-", max_size=8)
)
def test_a_star_stands_for_any_characters_but_the_slash(tenant: str, name: str, asked: str, of: str) -> None:
    text = f'[[grants]]\nroles = ["r"]\nnamespaces = ["{tenant}/{name}"]\npermissions = ["read"]\n'
    matches = fnmatchcase(asked, tenant) and fnmatchcase(of, name)
    assert bool(may("r", f"{asked}/{of}", text)) == matches


def test_a_dot_in_a_pattern_is_a_dot() -> None:
    text = '[[grants]]\nroles = ["r"]\nnamespaces = ["a.b/*"]\npermissions = ["read"]\n'
    assert may("r", "a.b/c", text) == {"read"}
    assert may("r", "axb/c", text) == set()


def test_an_empty_file_grants_nothing() -> None:
    assert may("admin", "acme/orders", "") == set()


def test_all_errors_of_a_file_are_reported_at_once_with_their_places() -> None:
    text = """
superuser = ["admin"]
superusers = ["*", 7]

[[grants]]
roles = ["reader", ""]
namespaces = ["acme", "acme/orders", "acme/*/x"]
permissions = ["reed"]
role = 1

[[grants]]
roles = "reader"
"""
    with pytest.raises(ValueError, match="superuser is not a known key") as caught:
        parse(text)
    errors = str(caught.value).split("; ")
    assert [each.split(" ")[0] for each in errors] == [
        "superuser",
        "superusers[1]",
        "superusers",
        "grants[0].role",
        "grants[0].namespaces[0]",
        "grants[0].namespaces[2]",
        "grants[0].permissions[0]",
        "grants[0].roles[1]",
        "grants[1]",
        "grants[1]",
        "grants[1].roles",
    ]


@pytest.mark.parametrize("text", ["grants = 1", "grants = [1]", "superusers = 1", "[grants]\nroles = []", "a = ", 'superusers = [["a"]]'])
def test_a_file_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse(text)


# The file changes


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of a valid file."""
    made = tmp_path / "roles.toml"
    made.write_text(GOOD)
    return made


@pytest.fixture
async def reloader() -> AsyncIterator[Reloader]:
    """A reloader that looks at the file often."""
    made = Reloader(look_seconds=0.01)
    made.start()
    yield made
    await made.close()


@pytest.fixture
async def roles(path: Path, reloader: Reloader) -> RolesFile:
    """The roles of the file."""
    return RolesFile(path, reloader)


def replace(path: Path, content: str | bytes | None) -> None:
    """Replaces the file by renaming, as a safe change does; None: deletes it."""
    if content is None:
        path.unlink()
        return
    new = path.with_suffix(".new")
    new.write_bytes(content.encode() if isinstance(content, str) else content)
    new.rename(path)


@pytest.mark.parametrize(
    ("content", "message"), [('superusers = "admin"\ngrants = 7', "superusers is not a list; grants is not a list"), (None, "No such file")]
)
async def test_an_invalid_file_leaves_the_former_roles_in_force_and_is_logged_once(
    roles: RolesFile, path: Path, reloader: Reloader, caplog: pytest.LogCaptureFixture, content: str | None, message: str
) -> None:
    replace(path, content)
    await eventually(lambda: bool(reloader.problems))
    await asyncio.sleep(0.1)
    assert Permission.READ in roles.granted("admin", "acme/orders")
    (line,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert message in line and "authorization file" in line
    replace(path, GOOD.replace('"admin"', '"root"'))
    await eventually(lambda: Permission.READ not in roles.granted("admin", "acme/orders"))
    assert Permission.READ in roles.granted("root", "acme/orders")


@pytest.mark.parametrize(
    "content",
    [b"superusers = 1", b"superusers = " + b"[" * 100_000, b"\xff", None],
    ids=["no list", "deep", "no UTF-8", "missing"],
)
async def test_a_start_with_an_unusable_file_is_refused(path: Path, reloader: Reloader, content: bytes | None) -> None:
    replace(path, content)
    with pytest.raises(RuntimeError, match="can't be used as authorization file"):
        RolesFile(path, reloader)
