"""The table of options in ``docs/clients.md`` has exactly the options that changes have in each client."""

from __future__ import annotations

import re
from collections.abc import Iterator

import topicpolicies as tp
from proto.tools import ROOT
from tests.clients.words import LANGUAGES, PAGE, table

CALLS = ("update", "delete", "edit")
_CLIENTS = ROOT / "clients"
_IDIOMS = {"AsyncClient", "CompletableFuture", "context.Context", "timeout", "timeoutMs", "signal"}
"""How each language ends a call: an argument of its methods, not an option of a change; ``test_words.py`` looks for these."""


def _promised() -> Iterator[tuple[str, str, str]]:
    """Each call, language and name of the table."""
    rows = table(PAGE.read_text(), "option")
    assert rows[0] == ["option", "of", *LANGUAGES]
    for _, calls, *names in rows[2:]:
        for call in calls.split(", "):
            yield from ((call, language, name.strip("`")) for language, name in zip(LANGUAGES, names, strict=True))


def _of(call: str, language: str) -> set[str]:
    return {name for each, other, name in _promised() if (each, other) == (call, language)} - _IDIOMS


def test_pythons_options() -> None:
    kinds = {"update": tp.UpdateOptions, "delete": tp.ChangeOptions, "edit": tp.EditOptions}
    for call, kind in kinds.items():
        assert _of(call, "Python") == {*kind.__annotations__}


def test_gos_options() -> None:
    source = (_CLIENTS / "go/topicpolicies/changes.go").read_text()
    for call, kind in {"update": "Update", "delete": "Deletion"}.items():
        body = re.search(rf"^type {kind} struct {{\n(.*?)^}}", source, re.DOTALL | re.MULTILINE)
        assert body is not None
        assert _of(call, "Go") == set(re.findall(r"^\t(\w+)", body[1], re.MULTILINE)) - {"Policies"}
    assert "func (c *Client) EditFrom(" in (_CLIENTS / "go/topicpolicies/edit.go").read_text()
    assert _of("edit", "Go") - {"EditFrom"} <= _of("update", "Go")


def test_javas_options() -> None:
    sources = _CLIENTS / "java/client/src/main/java"
    for call in CALLS:
        (file,) = sources.rglob(f"{call.capitalize()}.java")
        found = set(re.findall(r"public Builder (\w+)\(", file.read_text()))
        assert _of(call, "Java") == found - {"policies", "timeout", "insistent"}


def test_typescripts_options() -> None:
    sources = _CLIENTS / "typescript/src"
    changes = _members((sources / "requests.ts").read_text(), "ChangeOptions")
    fields = _members((sources / "requests.ts").read_text(), "UpdateFields")
    client = (sources / "client.ts").read_text()
    picked = re.search(r"interface EditOptions extends CallLimits, Pick<ChangeOptions, ([^>]*)>", client)
    assert picked is not None
    assert _of("delete", "TypeScript") == changes
    assert _of("update", "TypeScript") == changes | fields
    assert _of("edit", "TypeScript") == set(re.findall(r'"(\w+)"', picked[1])) | _members(client, "EditOptions")


def _members(source: str, interface: str) -> set[str]:
    body = re.search(rf"^export interface {interface}\b[^{{]*{{\n(.*?)^}}", source, re.DOTALL | re.MULTILINE)
    assert body is not None
    return set(re.findall(r"^  readonly (\w+)", body[1], re.MULTILINE))


def test_every_option_has_one_name_in_all_languages() -> None:
    def plain(name: str) -> str:
        return name.replace("_", "").lower().removesuffix("s")

    for call in CALLS:
        python, *others = ({plain(name) for name in _of(call, language)} for language in LANGUAGES)
        for other in others:
            assert {name.replace("editfrom", "start").replace("key", "scope") for name in other} == python
