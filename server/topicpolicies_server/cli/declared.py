"""The file of declared policies: parses YAML into declarations, and writes a file that declares documents as they are.

docs/command-line.md describes the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path as FilePath
from typing import Any, NamedTuple, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.reader import ReaderError

from topicpolicies import SCOPE_GLOBAL, SCOPE_LOCAL, PolicyDocument, Scope, TopicPolicies, Violation
from topicpolicies.masks import Path
from topicpolicies.names import namespace_of
from topicpolicies.values import ValueProblem, assign, enum_name, map_value

from ..core.errors import PolicyError
from ..core.names import parse_namespace, parse_topic
from . import forms
from .files import name_of, read_text, wrong
from .rendering import lines
from .values import find, structured

VERSION = 1
_T = TypeVar("_T")
_SCOPES = {"local": SCOPE_LOCAL, "global": SCOPE_GLOBAL}
_HALF = "half of a character (a surrogate without its other half)"
_NOT_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Characters that JSON may contain literally, and YAML may not."""


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

    def covers(self, topic: str) -> bool:
        """Whether the entry applies to a topic, by its full name."""
        return fnmatchcase(topic, self.topic) if self.pattern else topic == self.topic


class Declared(NamedTuple):
    """The content of files."""

    namespaces: tuple[str, ...]
    """The namespaces in which ``--prune`` may delete documents."""
    declarations: tuple[Declaration, ...]


def load(paths: Iterable[FilePath]) -> Declared:
    """Reads files, and of folders all files whose names end with .yaml, .yml or .json, in the order of their names.

    Raises:
        InvalidArgument: a file is wrong; the error has all problems, each with its line.
        OSError: a file can't be read.
    """
    found: list[Declared] = []
    for path in paths:
        files = sorted(each for each in path.iterdir() if each.suffix in (".yaml", ".yml", ".json")) if path.is_dir() else [path]
        if not files:
            raise wrong(Violation(str(path), "NO_FILES", "The folder has no .yaml, .yml or .json file."))
        found += [parse(read_text(each), name_of(each)) for each in files]
    namespaces = dict.fromkeys(namespace for each in found for namespace in each.namespaces)
    return Declared(tuple(namespaces), tuple(declaration for each in found for declaration in each.declarations))


def parse(text: str, name: str) -> Declared:
    """Parses the text of a file. ``name``: the file's name, for problems.

    Raises:
        InvalidArgument: the text is wrong; the error has all problems.
    """
    return _Parser(name).run(text, _Parser.file)


def parse_policies(text: str, name: str) -> tuple[TopicPolicies, tuple[Path, ...]]:
    """Parses a mapping of fields to values: what stands below ``set:``. Returns the values and paths of a declaration.

    Raises:
        InvalidArgument: the text is wrong; the error has all problems.
    """
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
        position = getattr(node, "lc", None)
        where = None if position is None else (position.data or {}).get(key)
        line = 0 if position is None else int(where[0] if where is not None else position.line or 0)
        self._problems.append(Violation(f"{self._name}:{line + 1}", reason, sentence))

    def file(self, root: Any) -> Declared:
        if not isinstance(root, Mapping):
            self._wrong(root, None, "WRONG_TYPE", "The file is not a mapping: begin with version: 1 and policies:.")
            return Declared((), ())
        self._check_keys(root, "version", "namespaces", "policies")
        if root.get("version") != VERSION or isinstance(root.get("version"), bool):
            self._wrong(root, "version", "UNKNOWN_VERSION", f"Write version: {VERSION}; this program knows no other.")
        namespaces = [self._full_name(parse_namespace, each, root, "namespaces") for each in self._list(root, "namespaces")]
        entries = self._list(root, "policies")
        found = [self._declaration(entry, entries, index) for index, entry in enumerate(entries)]
        return Declared(tuple(dict.fromkeys(namespaces)), tuple(each for each in found if each is not None))

    def _declaration(self, entry: Any, entries: Any, index: int) -> Declaration | None:
        if not isinstance(entry, Mapping):
            self._wrong(entries, index, "WRONG_TYPE", "An entry has topic: or pattern:, and set:.")
            return None
        self._check_keys(entry, "topic", "pattern", "scope", "set")
        pattern = "pattern" in entry
        key = "pattern" if pattern else "topic"
        if pattern == ("topic" in entry):
            self._wrong(entry, None, "WRONG_TYPE", "An entry has either topic: or pattern:.")
        topic = self._full_name(parse_topic, entry[key], entry, key) if key in entry else ""
        if pattern and topic and any(letter in namespace_of(topic) for letter in "*?["):
            self._wrong(entry, key, "MALFORMED_NAME", "Only the topic's own name may have wildcards, not its tenant and namespace.")
        scope = _SCOPES.get(_text(entry.get("scope", "local")).lower())
        if scope is None:
            self._wrong(entry, "scope", "UNKNOWN_SCOPE", f'"{_text(entry["scope"])}" is not a scope: write local or global.')
        values, paths = self.policies(entry.get("set"), entry, "set")
        return None if scope is None else Declaration(topic, pattern, scope, values, paths)

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
            except ValueProblem as problem:
                self._wrong(wanted, name, problem.reason, str(problem))
            except UnicodeEncodeError:
                self._wrong(wanted, name, "WRONG_VALUE", f"{_text(name)} has {_HALF}.")
        return values, (*(path for path, _ in lines(values)), *unset)

    def _full_name(self, check: Callable[[str], object], value: object, node: Any, key: str) -> str:
        text = _text(value)
        try:
            text.encode()
            return str(check(text))
        except PolicyError as error:
            self._wrong(node, key, "MALFORMED_NAME", error.message)
        except UnicodeEncodeError:
            self._wrong(node, key, "MALFORMED_NAME", f"{key}: has {_HALF}.")
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


def export(documents: Iterable[PolicyDocument], namespaces: Iterable[str], *, as_json: bool) -> str:
    """Returns the file that declares documents as they are: YAML, or one line of JSON that is also YAML."""
    entries = []
    for document in documents:
        if document.HasField("policies"):
            scope = {"scope": "global"} if document.scope == SCOPE_GLOBAL else {}
            entries.append({"topic": document.topic} | scope | {"set": plain(document.policies)})
    declaring = {"version": VERSION, "namespaces": list(namespaces), "policies": entries}
    if not as_json:
        return forms.yaml(declaring, begin=False) + "\n"
    return _NOT_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(declaring, ensure_ascii=False)) + "\n"


def plain(message: Message) -> dict[str, Any]:
    """Returns the fields of a message as a file declares them."""
    made: dict[str, Any] = {}
    for field, value in sorted(message.ListFields(), key=lambda item: item[0].name):
        entries = map_value(field)
        if entries is not None:
            made[field.name] = {key: _value(entries, value[key]) for key in sorted(value)}
        elif field.is_repeated:
            made[field.name] = [_value(field, each) for each in value]
        else:
            made[field.name] = _value(field, value)
    return made


def _value(field: FieldDescriptor, value: Any) -> Any:
    if field.message_type is not None:
        return plain(value)
    if field.enum_type is not None:
        name = enum_name(field.enum_type, value)
        return int(name) if name.isdigit() else name.lower()
    return value
