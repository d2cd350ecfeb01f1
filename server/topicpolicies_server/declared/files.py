"""The file of declared policies: parses YAML into declarations. Also reads other files that the command line names.

docs/declared-policies.md describes the file.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path as FilePath
from typing import Any, NamedTuple, TypeVar

from grpc import StatusCode
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.reader import ReaderError

from topicpolicies import SCOPE_GLOBAL, SCOPE_LOCAL, InvalidArgument, Scope, TopicPolicies, Violation
from topicpolicies.masks import Path
from topicpolicies.values import ValueProblem, assign, scalar

from ..core.changes.constraints import Constraint, violations
from ..core.errors import PolicyError
from ..core.names import full_topic, parse_namespace, parse_topic
from ..core.policies.documents import split
from .values import find, is_number, leaves, structured, with_unit

VERSION = 1
STANDARD_INPUT = STANDARD_OUTPUT = FilePath("-")
"""What the option of a file says for a stream."""
_MOST_OWNER = 256
_T = TypeVar("_T")
_SCOPES = {"local": SCOPE_LOCAL, "global": SCOPE_GLOBAL}


def name_of(path: FilePath) -> str:
    """Returns the name of a file in errors."""
    return "standard input" if path == STANDARD_INPUT else path.name


def read_text(path: FilePath) -> str:
    """Returns the text of a file; ``-``: of standard input.

    Raises:
        InvalidArgument: the content is not UTF-8; the error names the line.
        OSError: the file can't be read.
    """
    content = sys.stdin.buffer.read() if path == STANDARD_INPUT else path.read_bytes()
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise wrong(Violation(f"{name_of(path)}:{line}", "NOT_UTF8", f"Byte 0x{content[error.start]:02x} is not UTF-8.")) from None


def wrong(*violations: Violation) -> InvalidArgument:
    """Returns an error about the content of a file; the message has the place of each problem."""
    message = " ".join(f"{violation.field}: {violation.description}" for violation in violations)
    return InvalidArgument(message, code=StatusCode.INVALID_ARGUMENT, reason="INVALID_REQUEST", violations=violations)


class Declaration(NamedTuple):
    """One entry of the file."""

    topic: str
    """A topic's full name, or a pattern of full names. The tenant and the namespace have no wildcards."""
    pattern: bool
    scope: Scope.ValueType
    values: TopicPolicies
    """The values that are declared."""
    paths: tuple[Path, ...]
    """The leaves of the values, and the paths that are declared to be unset."""
    place: str = ""
    """The file and the line, for problems."""

    def covers(self, topic: str) -> bool:
        """Whether the entry applies to a topic, by its full name."""
        return fnmatchcase(topic, self.topic) if self.pattern else topic == self.topic


class Declared(NamedTuple):
    """The content of files."""

    namespaces: tuple[str, ...]
    """The namespaces in which ``--prune`` may delete documents."""
    declarations: tuple[Declaration, ...]
    owner: str = ""
    """Who declares this; empty: the files do not say."""
    constraints: tuple[Constraint, ...] = ()
    """What the values of topics may be, whoever changes them, at a server with these files."""

    @property
    def topics(self) -> list[str]:
        """The topics that are named."""
        return [each.topic for each in self.declarations if not each.pattern]

    def covering(self, topic: str) -> list[Declaration]:
        """Returns the declarations of a topic: patterns first, then those that name it. Patterns skip Pulsar's system topics."""
        found = [each for each in self.declarations if each.covers(topic)]
        if any(each.pattern for each in found) and parse_topic(topic).is_system_topic:
            found = [each for each in found if not each.pattern]
        return sorted(found, key=lambda each: not each.pattern)


def load(paths: Iterable[FilePath]) -> Declared:
    """Reads files of one owner, as ``by_owner``. Files that declare no policies may have another owner, or none."""
    found = by_owner(paths)
    owners = [each for each in found if each.declarations] or found
    if len(owners) > 1:
        told = f"The files have several owners ({', '.join(each.owner or 'none' for each in owners)}): give those of one owner at a time."
        raise wrong(Violation("owner", "SEVERAL_OWNERS", told))
    namespaces = tuple(dict.fromkeys(namespace for each in found for namespace in each.namespaces))
    return owners[0]._replace(namespaces=namespaces)


def by_owner(paths: Iterable[FilePath]) -> list[Declared]:
    """Reads files, and of folders all files; returns what each owner declares, in the order of their names.

    Raises:
        InvalidArgument: files are wrong, or a declared value breaks a constraint of theirs; the error has all problems, with their lines.
        OSError: a file can't be read.
    """
    found: dict[str, Declared] = {}
    problems: list[Violation] = []
    for file in (each for path in paths for each in files_in(path)):
        try:
            one = parse(read_text(file), name_of(file))
        except InvalidArgument as error:
            problems += error.violations
            continue
        known = found.get(one.owner, Declared((), (), one.owner))
        namespaces = tuple(dict.fromkeys((*known.namespaces, *one.namespaces)))
        found[one.owner] = Declared(namespaces, (*known.declarations, *one.declarations), one.owner, (*known.constraints, *one.constraints))
    for each in (declaration for declared in found.values() for declaration in declared.declarations):
        values = split(each.values)
        broken = violations(constraints_of(each.topic, found.values()), values.keys(), values)
        problems += [Violation(each.place, "CONSTRAINT", violation.description) for violation in broken]
    if problems:
        raise wrong(*problems)
    return [found[owner] for owner in sorted(found)]


def constraints_of(topic: str, declared: Iterable[Declared]) -> list[Constraint]:
    """Returns the constraints of a topic."""
    return [each for one in declared for each in one.constraints if fnmatchcase(topic, each.topics)]


def files_in(path: FilePath) -> list[FilePath]:
    """Returns the files of a folder whose names end with .yaml, .yml or .json, in the order of their names; of a file, the file."""
    files = sorted(each for each in path.iterdir() if each.suffix in (".yaml", ".yml", ".json")) if path.is_dir() else [path]
    if not files:
        raise wrong(Violation(str(path), "NO_FILES", "The folder has no .yaml, .yml or .json file."))
    return files


def parse(text: str, name: str) -> Declared:
    """Parses the text of a file. ``name``: the file's name, for problems, which are an InvalidArgument."""
    return _Parser(name).run(text, _Parser.file)


def parse_policies(text: str, name: str) -> tuple[TopicPolicies, tuple[Path, ...]]:
    """Parses a mapping of fields to values, what stands below ``set:``, as ``parse``. Returns the values and paths of a declaration."""
    return _Parser(name).run(text, lambda parser, root: parser.policies(root or {}, None, None))


class _Parser:
    """Reads the nodes of one file, and collects its problems."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._problems: list[Violation] = []

    def run(self, text: str, read: Callable[[_Parser, Any], _T]) -> _T:
        found = read(self, self._root(text))
        if self._problems:
            raise wrong(*self._problems)
        return found

    def _root(self, text: str) -> Any:
        try:
            return YAML(typ="rt", pure=True).load(text)
        except MarkedYAMLError as error:
            line = error.problem_mark.line if error.problem_mark is not None else 0
            problem = f"{error.problem or error.context}."
            if problem.startswith("but ") and error.context:
                problem = f"{error.context}, {problem}"
        except ReaderError as error:
            line, code = text.count("\n", 0, error.position), f"{error.character:04X}"
            problem = f'YAML may not have the character U+{code} as it is: write "\\u{code}", in double quotes.'
        except (YAMLError, ValueError, TypeError, RecursionError) as error:
            line, problem = 0, str(error)
        raise wrong(Violation(f"{self._name}:{line + 1}", "NOT_YAML", problem))

    def _wrong(self, node: Any, key: object, reason: str, sentence: str) -> None:
        """Adds a problem at a key of a node, with its line."""
        self._problems.append(Violation(self._place(node, key), reason, sentence))

    def _place(self, node: Any, key: object) -> str:
        position = getattr(node, "lc", None)
        where = None if position is None else (position.data or {}).get(key)
        line = 0 if position is None else int(where[0] if where is not None else position.line or 0)
        return f"{self._name}:{line + 1}"

    def file(self, root: Any) -> Declared:
        if not isinstance(root, Mapping):
            self._wrong(root, None, "WRONG_TYPE", "The file is not a mapping: begin with version: 1 and policies:.")
            return Declared((), ())
        self._check_keys(root, "version", "owner", "namespaces", "policies", "constraints")
        if root.get("version") != VERSION or isinstance(root.get("version"), bool):
            self._wrong(root, "version", "UNKNOWN_VERSION", f"Write version: {VERSION}; this program knows no other.")
        namespaces = [self._full_name(parse_namespace, each, root, "namespaces") for each in self._list(root, "namespaces")]
        entries = self._entries(root, "policies", "topic", "pattern", "scope", "set")
        found = tuple(each for entry in entries for each in self._declaration(entry))
        constraints = tuple(each for entry in self._entries(root, "constraints", "pattern", "fields") for each in self._constraints(entry))
        owner = root.get("owner", "")
        if not isinstance(owner, str) or len(owner) > _MOST_OWNER:
            self._wrong(root, "owner", "WRONG_TYPE", f"owner: is a text of at most {_MOST_OWNER} characters.")
        return Declared(tuple(dict.fromkeys(namespaces)), found, str(owner), constraints)

    def _entries(self, root: Mapping[Any, Any], key: str, *known: str) -> Iterator[Mapping[Any, Any]]:
        entries = self._list(root, key)
        for index, entry in enumerate(entries):
            if isinstance(entry, Mapping):
                self._check_keys(entry, *known)
                yield entry
            else:
                self._wrong(entries, index, "WRONG_TYPE", f"An entry is a mapping with the keys {', '.join(known)}.")

    def _declaration(self, entry: Mapping[Any, Any]) -> Iterator[Declaration]:
        pattern = "pattern" in entry
        key = "pattern" if pattern else "topic"
        if pattern == ("topic" in entry):
            self._wrong(entry, None, "WRONG_TYPE", "An entry has either topic: or pattern:.")
        topic = self._full_name(parse_topic, entry[key], entry, key) if key in entry else ""
        scope = _SCOPES.get(_text(entry.get("scope", "local")).lower())
        if scope is None:
            self._wrong(entry, "scope", "UNKNOWN_SCOPE", f'"{_text(entry["scope"])}" is not a scope: write local or global.')
        values, paths = self.policies(entry.get("set"), entry, "set")
        if scope is not None:
            yield Declaration(topic, pattern, scope, values, paths, self._place(entry, key))

    def _constraints(self, entry: Mapping[Any, Any]) -> Iterator[Constraint]:
        pattern = self._full_name(parse_topic, entry.get("pattern", ""), entry, "pattern")
        fields = entry.get("fields")
        if not isinstance(fields, Mapping):
            self._wrong(entry, "fields", "WRONG_TYPE", "fields: is a mapping of fields to min:, max: or allowed:.")
            return
        for name, bounds in fields.items():
            try:
                yield self._constraint(_text(name), bounds, pattern)
            except ValueProblem as problem:
                self._wrong(fields, name, problem.reason, str(problem))

    def _constraint(self, name: str, bounds: Any, pattern: str) -> Constraint:
        if not isinstance(bounds, Mapping) or not bounds:
            raise ValueProblem("WRONG_TYPE", f"{name}: is a mapping of min:, max: or allowed:.")
        self._check_keys(bounds, "min", "max", "allowed")
        target = find(name)
        kind = target.value
        if kind.message_type is not None or is_number(kind) is ("allowed" in bounds) or kind.cpp_type == kind.CPPTYPE_BOOL:
            raise ValueProblem("WRONG_TYPE", f"{name}: numbers have min: and max:, texts and lists have allowed:.")
        least, most = (scalar(kind, structured(kind, bounds[key], target.path), key) if key in bounds else None for key in ("min", "max"))
        if least is not None and most is not None and least > most:
            raise ValueProblem("WRONG_VALUE", f"{name}: min: is above max:, so no value is allowed.")
        choices = self._list(bounds, "allowed")
        allowed = frozenset(scalar(kind, each, "allowed") for each in choices) if "allowed" in bounds else None
        return Constraint(target.path, pattern, with_unit, least, most, allowed, ", ".join(map(str, choices)))

    def policies(self, wanted: Any, holder: Any, key: str | None) -> tuple[TopicPolicies, tuple[Path, ...]]:
        values, unset = TopicPolicies(), []
        if not isinstance(wanted, Mapping):
            self._wrong(holder, key, "WRONG_TYPE", f"{f'{key}:' if key else 'The file'} is a mapping of fields to values.")
            return values, ()
        for name, value in wanted.items():
            try:
                target = find(_text(name))
                clears = value is None or value in ([], {})
                assign(TopicPolicies() if clears else values, target, structured(target.value, value, target.path))
                unset += [target.path] if clears else []
            except ValueError as problem:  # also half of a character
                self._wrong(wanted, name, problem.reason if isinstance(problem, ValueProblem) else "WRONG_VALUE", str(problem))
        return values, (*leaves(values), *unset)

    def _full_name(self, check: Callable[[str], object], value: object, node: Any, key: str) -> str:
        text = _text(value)
        try:
            text.encode()
            return str(check(full_topic(text) if check is parse_topic and isinstance(value, str) else text))
        except (PolicyError, UnicodeEncodeError) as error:
            self._wrong(node, key, "MALFORMED_NAME", str(error))
        return ""

    def _list(self, node: Any, key: str) -> Sequence[Any]:
        value = node.get(key)
        if value is None:
            return ()
        if isinstance(value, (str, Mapping)) or not isinstance(value, Sequence):
            self._wrong(node, key, "WRONG_TYPE", f"{key}: is a list.")
            return ()
        return value

    def _check_keys(self, node: Mapping[Any, Any], *known: str) -> None:
        for key in node:
            if key not in known:
                self._wrong(node, key, "UNKNOWN_KEY", f'"{_text(key)}" is not a key here; the keys are {", ".join(known)}.')


def _text(value: object) -> str:
    """Returns the text of a scalar. A list or a mapping is only called one: its text may have no bound, where it refers to others."""
    return "a list or a mapping" if isinstance(value, Collection) and not isinstance(value, str) else str(value)
