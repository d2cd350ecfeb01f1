"""Public names of the clients: those that ``docs/clients.md`` promises, and those that the API of each client has."""

from __future__ import annotations

import enum
import importlib
import inspect
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple, TypeAlias

from proto import coordinates
from proto.tools import ROOT, TYPESCRIPT, go, node, node_modules
from tests.clients.toolchains import GO, java_program, run

PAGE = ROOT / "docs" / "clients.md"
LANGUAGES = ("Python", "Go", "Java", "TypeScript")
_HERE = Path(__file__).parent
_TOP = "-"
"""The owner of names that belong to the package itself."""
_OF_CLIENTS = frozenset(
    ("update", "edit", "update_many", "delete", "get", "get_both", "effective", "list", "history", "watch", "cache", "server_info", "stub")
)
"""Python's names of methods of clients: every client class must have them, and not just any type."""
_OF_CACHES = frozenset(("listen", "staleness"))
"""Python's names of methods of caches."""
_CLIENTS: Mapping[str, tuple[str, ...]] = {
    "Python": ("Client", "AsyncClient"),
    "Go": ("Client",),
    "Java": ("TopicPoliciesClient",),
    "TypeScript": ("Client",),
}

Api: TypeAlias = dict[str, set[str]]
"""Public names by the type that they belong to: members, their parameters, and in some languages the types of these."""


class Promise(NamedTuple):
    """The promise that a client has a name for a feature."""

    language: str
    feature: str
    word: str
    owners: tuple[str, ...]
    """The types that must each have the name; empty: any type may have it."""

    def __str__(self) -> str:
        """Returns the promise as one line."""
        where = f" of {' and '.join(self.owners)}" if self.owners else ""
        return f"{self.language}: {self.feature}: {self.word}{where}"


def promises(page: str) -> Iterator[Promise]:
    """Yields the promises of the table of the page.

    Raises:
        ValueError: the page has no table, or a cell without a name.
    """
    rows = table(page, "feature")
    if not rows or rows[0] != ["feature", *LANGUAGES]:
        raise ValueError("the page has no table of features by language")
    for feature, *cells in rows[2:]:
        words = [re.findall(r"`([^`]+)`", cell) for cell in cells]
        if len(words) != len(LANGUAGES) or not all(words):
            raise ValueError(f"the row of {feature!r} does not have a word for each language")
        for language, named in zip(LANGUAGES, words, strict=True):
            for index, word in enumerate(named):
                # Rows have the same names in the same order in all languages; some languages need fewer.
                python_name = words[0][min(index, len(words[0]) - 1)]
                owners = _CLIENTS[language] if python_name in _OF_CLIENTS else ("PolicyCache",) if python_name in _OF_CACHES else ()
                yield Promise(language, feature, word, owners)


def table(page: str, first: str) -> list[list[str]]:
    """The cells of the table whose first column has this name, its head included; empty if there is none."""
    lines = page.splitlines()
    begin = next((number for number, line in enumerate(lines) if line.startswith(f"| {first} |")), len(lines))
    body = takewhile(lambda line: line.startswith("|"), lines[begin:])
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in body]


def kept(promise: Promise, api: Api) -> bool:
    """Returns whether the API of a client keeps a promise."""
    owner, _, member = promise.word.rpartition(".")
    if promise.word == "context.Context":
        return any("context.Context" in words for words in api.values())
    if owner:
        return member in api.get(owner, ())
    if promise.owners:
        return all(promise.word in api.get(each, ()) for each in promise.owners)
    return any(promise.word in words for words in api.values())


def words(language: str) -> Api:
    """Returns the public names of a client.

    Raises:
        ToolMissingError: a program that reads the client's sources is missing.
        BrokerUnavailableError: Java is missing.
        AssertionError: the client's sources can't be read.
    """
    if language == "Python":
        return _python()
    if language == "Go":
        return go_words(run([go(), "doc", "-all", "./topicpolicies"], GO))
    if language == "Java":
        package = coordinates.wanted()["java.package"].replace(".", "/")
        sources = ROOT / "clients" / "java" / "client" / "src" / "main" / "java" / package / "client"
        return _listed(run(java_program(str(_HERE / "java" / "Words.java"), str(sources)), ROOT))
    program, index = _HERE / "typescript" / "words.mjs", TYPESCRIPT / "src" / "index.ts"
    return _listed(run([node(), str(program), str(node_modules()), str(index)], ROOT))


def _listed(output: str) -> Api:
    api: Api = defaultdict(set)
    for line in output.splitlines():
        owner, _, word = line.partition(" ")
        api[owner].add(word)
    return api


def _python() -> Api:
    package = importlib.import_module("topicpolicies")
    api: Api = defaultdict(set)
    for name, shown in vars(package).items():
        if name.startswith("_") or inspect.ismodule(shown) or hasattr(shown, "DESCRIPTOR"):
            continue
        api[_TOP].add(name)
        if inspect.isfunction(shown):
            api[_TOP] |= set(inspect.signature(shown).parameters)
        elif inspect.isclass(shown):
            api[name] |= set(_members(shown))
    return api


def _members(shown: type) -> Iterator[str]:
    """Yields the public attributes of a class and the parameters of its methods."""
    if issubclass(shown, enum.Enum):
        yield from shown.__members__
        return
    for each in shown.__mro__[:-1]:
        for name, member in [*vars(each).items(), *((name, None) for name in inspect.get_annotations(each))]:
            if not name.startswith("_"):
                yield name
            if inspect.isfunction(member) and (not name.startswith("_") or name == "__init__"):
                yield from inspect.signature(member).parameters


def go_words(documentation: str) -> Api:
    """Returns the public names in the output of ``go doc -all``."""
    api: Api = defaultdict(set)
    owner = ""
    for line in documentation.splitlines():
        code = line.partition("//")[0].rstrip()
        if found := re.match(r"func (?:\(\w+ \*?(\w+)(?:\[[^\]]*\])?\) )?(\w+)(.*)", code):
            of = found[1] or _TOP
            api[of] |= {found[2], *re.findall(r"\bcontext\.Context\b|\w+", found[3])}
        elif found := re.match(r"(?:type|const|var) (\w+)", code):
            api[_TOP].add(found[1])
            owner = found[1] if code.endswith("{") else ""
        elif re.match(r"(?:const|var|type) \($", code):
            owner = _TOP
        elif code in {"}", ")"}:
            owner = ""
        elif owner and (found := re.match(r"\t(\w+(?:, \w+)*)", code)):
            api[owner] |= set(found[1].split(", "))
    return api
