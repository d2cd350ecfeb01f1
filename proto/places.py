"""Where the names under which the packages are published stand: what declares them, and what uses them.

Declarations are found whatever they declare, so that one which is not as it should be is known, as after a merge. Uses are found by the
old name. What only looks like a name is left alone: ``topicpolicies`` is also the Protobuf package, what Python imports, and the domain of
errors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import NamedTuple

ROOMS = ("client", "broker", "example", "v1")
"""The Java packages below the root package."""
_ROOMS = "|".join(ROOMS)
_CODE = re.compile(r"^```java\n.*?^```$", re.MULTILINE | re.DOTALL)
"""Java in a Markdown page."""
_EXTRAS = "cli|server|spark|dev"


class Declaration(NamedTuple):
    """Something that says one of the names."""

    name: str
    """The key of the name in ``coordinates.toml``."""
    files: str
    """A pattern of paths; a star stands for any text."""
    says: re.Pattern[str]
    """What it looks like; the group is the name."""


DECLARATIONS = (
    Declaration("go.module", "clients/go/go.mod", re.compile(r"^module (\S+)$", re.MULTILINE)),
    Declaration(
        "go.module", "*.go", re.compile(r'^(?:import)?\s*(?:\w+ )?"([\w./~-]+)/(?:topicpolicies(?:/v1)?|internal/\w+)"$', re.MULTILINE)
    ),
    Declaration("go.module", "proto/*.proto", re.compile(r'^option go_package = "(.+)/topicpolicies/v1;', re.MULTILINE)),
    Declaration("java.group", "clients/java/pom.xml", re.compile(r"\A.*?<groupId>([^<]+)</groupId>", re.DOTALL)),
    Declaration("java.group", "clients/java/*/pom.xml", re.compile(r"<groupId>([^<]+)</groupId>\s*<artifactId>topicpolicies-")),
    Declaration("java.package", "proto/*.proto", re.compile(r'^option java_package = "(.+)\.v1";', re.MULTILINE)),
    Declaration("java.package", "clients/java/*.java", re.compile(rf"^package ([\w.]+?)\.(?:{_ROOMS})\b[\w.]*;", re.MULTILINE)),
    Declaration("typescript.name", "clients/typescript/package.json", re.compile(r'\A\{\s*"name": "([^"]+)"')),
    Declaration("typescript.name", "clients/typescript/package-lock.json", re.compile(r'\A\{\s*"name": "([^"]+)"')),
    Declaration("typescript.name", "clients/typescript/package-lock.json", re.compile(r'^    "": \{\s*"name": "([^"]+)"', re.MULTILINE)),
    Declaration("python.distribution", "pyproject.toml", re.compile(r'^name = "([^"]+)"$', re.MULTILINE)),
    Declaration("python.distribution", "pyproject.toml", re.compile(rf'^ +"([\w.-]+)\[(?:{_EXTRAS})\]",$', re.MULTILINE)),
    Declaration("python.distribution", "server/*.py", re.compile(r'\bmetadata\.version\("([^"]+)"\)')),
)
_USES = (
    ("go.module", "*", r"(?<![\w./-])(?P<old>{old})(?![\w-]|\.\w)"),
    ("java.group", "*pom.xml", r"<groupId>(?P<old>{old})</groupId>|<(?:include|exclude|artifact)>(?P<other>{old}):"),
    ("java.group", "*", r"(?<![\w.:/-])(?P<old>{old}):(?=topicpolicies-)"),
    ("java.package", "proto/*.proto", r'^option java_package = "(?P<old>{old})\.v1";'),
    ("java.package", "*", r"(?<![\w.])(?P<old>{old})(?=\.(?:broker|example)\.[A-Z])"),
    ("java.package", "*", rf"(?<=/java/)(?P<old>{{path}})(?=/(?:{_ROOMS})\b)"),
    ("typescript.name", "clients/typescript/package*.json", r'^ *"name": "(?P<old>{old})"'),
    ("typescript.name", "clients/typescript/tsconfig*.json", r'"(?P<old>{old})(?:/v1)?":'),
    ("typescript.name", "*", r"""\b(?:from|import|require)\b ?\(?["'](?P<old>{old})(?:/v1)?["']"""),
    ("typescript.name", "*", r"\bnpm (?:install|add) (?P<old>{old})(?![\w/.-])"),
    ("typescript.name", "clients/typescript/*.md", r"`(?P<old>{old})(?=/v1`)"),
    ("python.distribution", "pyproject.toml", r'^name = "(?P<old>{old})"$'),
    ("python.distribution", "*", rf"(?<![\w./-])(?P<old>{{old}})(?=\[(?:{_EXTRAS})\])"),
    ("python.distribution", "*", r"\bpip install '?(?P<old>{old})(?![\w/.-])"),
    ("python.distribution", "*.py", r'\bmetadata\.version\("(?P<old>{old})"\)'),
)
"""What uses a name: its key, in which files, and what that looks like."""
_JAVA = rf"(?<![\w./\"$-])(?P<old>{{old}})(?=\.(?:{_ROOMS})\b)|(?<=\")(?P<other>{{old}})(?=\.client\.[A-Z])"
"""A package in Java's sources. At the beginning of a literal ``topicpolicies.v1`` is the Protobuf package."""


def declared(path: str, text: str) -> Iterator[tuple[Declaration, str, int]]:
    """What a file declares: which declaration, the name that it says, and in which line."""
    for each in DECLARATIONS:
        if fnmatchcase(path, each.files):
            for found in each.says.finditer(text):
                yield each, found[1], text.count("\n", 0, found.start(1)) + 1


def renamed(path: str, text: str, name: str, old: str, new: str) -> str:
    """A file's text with a new name in the place of an old one; ``name``: which, by its key."""
    for key, files, pattern in _USES:
        if key == name and fnmatchcase(path, files):
            # Only the pattern that has a path in it is about directories.
            slashed = "{path}" in pattern
            filled = pattern.format(old=re.escape(old), path=re.escape(old.replace(".", "/")))
            text = _replaced(re.compile(filled, re.MULTILINE), text, new.replace(".", "/") if slashed else new)
    if name == "java.package":
        java = re.compile(_JAVA.format(old=re.escape(old)))
        if path.endswith((".java", "pom.xml")) or path.startswith("clients/java/"):
            return _replaced(java, text, new)
        if path.endswith(".md"):
            return _CODE.sub(lambda found: _replaced(java, found[0], new), text)
    return text


def _replaced(pattern: re.Pattern[str], text: str, new: str) -> str:
    def replacement(found: re.Match[str]) -> str:
        group = "old" if found["old"] is not None else "other"
        start, end = (at - found.start() for at in found.span(group))
        return found[0][:start] + new + found[0][end:]

    return pattern.sub(replacement, text)
