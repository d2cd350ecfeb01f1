"""The file of declared policies: parses YAML into declarations, and writes a file that declares documents as they are.

docs/command-line.md describes the file.

Only what is declared is compared and changed: other fields, and other leaves of a declared object, are left alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path as FilePath
from typing import Any, NamedTuple

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.reader import ReaderError

from topicpolicies import SCOPE_GLOBAL, SCOPE_LOCAL, PolicyDocument, Scope, TopicPolicies, Violation
from topicpolicies.masks import Path
from topicpolicies.names import namespace_of
from topicpolicies.values import ValueProblem, assign, enum_name, map_value

from ...core.errors import PolicyError
from ...core.names import parse_namespace, parse_topic
from ..files import name_of, read_text, wrong
from ..showing import forms
from ..values import find, structured

VERSION = 1
_TOP = ("version", "namespaces", "policies")
_SCOPES = {"local": SCOPE_LOCAL, "global": SCOPE_GLOBAL}
_ENTRY = ("topic", "pattern", "scope", "set")
_WILD = "*?["
_HALF = "half of a character (a surrogate without its other half)"
_NOT_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Characters that JSON may contain literally, and YAML may not."""


class Declaration(NamedTuple):
    """One entry of the file."""

    topic: str
    """A topic's full name, or a pattern of full names."""
    pattern: bool
    scope: Scope.ValueType
    values: TopicPolicies
    """The values that are declared."""
    leaves: tuple[Path, ...]
    """The paths of the declared values."""
    unset: tuple[Path, ...]
    """The paths that are declared to be unset."""

    def covers(self, topic: str) -> bool:
        """Whether the entry applies to a topic, by its full name."""
        return fnmatchcase(topic, self.topic) if self.pattern else topic == self.topic

    @property
    def namespace(self) -> str:
        """``tenant/namespace``, which has no wildcards in patterns either."""
        return namespace_of(self.topic)


class Declared(NamedTuple):
    """The content of a file, or of all files of a folder."""

    namespaces: tuple[str, ...]
    """The namespaces in which ``--prune`` may delete documents."""
    declarations: tuple[Declaration, ...]


class _Problems:
    def __init__(self, name: str) -> None:
        self._name = name
        self.found: list[Violation] = []

    def add(self, node: Any, key: object, reason: str, sentence: str) -> None:
        """Adds a problem at a key of a node, with its line."""
        position = getattr(node, "lc", None)
        where = None if position is None else (position.data or {}).get(key)
        line = 0 if position is None else int(where[0] if where is not None else position.line or 0)
        self.found.append(Violation(f"{self._name}:{line + 1}", reason, sentence))


def load(path: FilePath) -> Declared:
    """Reads a file, or all files of a folder whose names end with .yaml, .yml or .json, in the order of their names.

    Raises:
        InvalidArgument: a file is wrong; the error has all problems, each with its line.
        OSError: a file can't be read.
    """
    if not path.is_dir():
        return parse(read_text(path), name_of(path))
    files = sorted(each for each in path.iterdir() if each.suffix in (".yaml", ".yml", ".json"))
    if not files:
        raise wrong(Violation(str(path), "NO_FILES", "The folder has no .yaml, .yml or .json file."))
    found = [parse(read_text(each), each.name) for each in files]
    namespaces = dict.fromkeys(namespace for each in found for namespace in each.namespaces)
    return Declared(tuple(namespaces), tuple(declaration for each in found for declaration in each.declarations))


def parse(text: str, name: str) -> Declared:
    """Parses the text of a file. ``name``: the file's name, for problems.

    Raises:
        InvalidArgument: the text is wrong; the error has all problems.
    """
    problems = _Problems(name)
    declared = _declared(_root(text, name), problems)
    if problems.found:
        raise wrong(*problems.found)
    return declared


def parse_policies(text: str, name: str) -> tuple[TopicPolicies, tuple[Path, ...], tuple[Path, ...]]:
    """Parses a mapping of fields to values: what stands below ``set:``. Returns the values, their leaves, and the paths to be unset.

    Raises:
        InvalidArgument: the text is wrong; the error has all problems.
    """
    problems = _Problems(name)
    found = _policies(_root(text, name) or {}, None, None, problems)
    if problems.found:
        raise wrong(*problems.found)
    return found


def _root(text: str, name: str) -> Any:
    try:
        return YAML(typ="rt", pure=True).load(text)
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else 1
        told = f"{error.problem or error.context}"
        if told.startswith("but ") and error.context:
            told = f"{error.context}, {told}"
        raise wrong(Violation(f"{name}:{line}", "NOT_YAML", f"{told}.")) from None
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        told = f'YAML may not have the character U+{error.character:04X} as it is: write "\\u{error.character:04X}", in double quotes.'
        raise wrong(Violation(f"{name}:{line}", "NOT_YAML", told)) from None
    except (YAMLError, ValueError, TypeError, RecursionError) as error:
        raise wrong(Violation(f"{name}:1", "NOT_YAML", f"{error}")) from None


def _declared(root: Any, problems: _Problems) -> Declared:
    if not isinstance(root, Mapping):
        problems.add(root, None, "WRONG_TYPE", "The file is not a mapping: begin with version: 1 and policies:.")
        return Declared((), ())
    _unknown_keys(root, _TOP, problems)
    if root.get("version") != VERSION or isinstance(root.get("version"), bool):
        problems.add(root, "version", "UNKNOWN_VERSION", f"Write version: {VERSION}; this program knows no other.")
    namespaces = [_name(parse_namespace, each, root, "namespaces", problems) for each in _list(root, "namespaces", problems)]
    entries = _list(root, "policies", problems)
    found = [_declaration(entry, entries, index, problems) for index, entry in enumerate(entries)]
    return Declared(tuple(dict.fromkeys(namespaces)), tuple(each for each in found if each is not None))


def _declaration(entry: Any, entries: Any, index: int, problems: _Problems) -> Declaration | None:
    before = len(problems.found)
    if not isinstance(entry, Mapping):
        problems.add(entries, index, "WRONG_TYPE", "An entry has topic: or pattern:, and set:.")
        return None
    _unknown_keys(entry, _ENTRY, problems)
    pattern = "pattern" in entry
    if pattern == ("topic" in entry):
        problems.add(entry, None, "WRONG_TYPE", "An entry has either topic: or pattern:.")
    key = "pattern" if pattern else "topic"
    topic = _name(parse_topic, entry[key], entry, key, problems) if key in entry else ""
    if pattern and topic and any(letter in namespace_of(topic) for letter in _WILD):
        told = "A pattern names its tenant and namespace; only the topic's own name may have wildcards."
        problems.add(entry, key, "MALFORMED_NAME", told)
    scope = _SCOPES.get(_text(entry.get("scope", "local")).lower())
    if scope is None:
        problems.add(entry, "scope", "UNKNOWN_SCOPE", f'"{_text(entry["scope"])}" is not a scope: write local or global.')
    values, leaves_set, unset = _policies(entry.get("set"), entry, "set", problems)
    if scope is None or len(problems.found) > before:
        return None
    return Declaration(topic, pattern, scope, values, leaves_set, unset)


def _policies(wanted: Any, holder: Any, key: str | None, problems: _Problems) -> tuple[TopicPolicies, tuple[Path, ...], tuple[Path, ...]]:
    """Returns the values of a mapping of fields, their leaves, and the paths that are declared to be unset."""
    values, unset = TopicPolicies(), []
    if not isinstance(wanted, Mapping):
        problems.add(holder, key, "WRONG_TYPE", f"{key or 'The file'}{':' if key else ''} is a mapping of fields to values.")
        return values, (), ()
    for name, value in wanted.items():
        try:
            target = find(_text(name))
            assign(values, target, structured(target.value, value, target.path))
            if value is None or value in ([], {}):
                unset.append(target.path)
        except ValueProblem as problem:
            problems.add(wanted, name, problem.reason, str(problem))
        except UnicodeEncodeError:
            problems.add(wanted, name, "WRONG_VALUE", f"{_text(name)} has {_HALF}.")
    return values, tuple(leaves(values)), tuple(unset)


def _name(check: Any, value: object, node: Any, key: str, problems: _Problems) -> str:
    """Returns the full form of a name; empty: it is none."""
    text = _text(value)
    try:
        text.encode()
        return str(check(text))
    except PolicyError as error:
        problems.add(node, key, "MALFORMED_NAME", error.message)
    except UnicodeEncodeError:
        problems.add(node, key, "MALFORMED_NAME", f"{key}: has {_HALF}.")
    return ""


def _text(value: object) -> str:
    """Returns the text of a scalar. A list or a mapping is only called one: its text may have no bound, where it refers to others."""
    return "a list or a mapping" if isinstance(value, Collection) and not isinstance(value, str) else str(value)


def _list(node: Any, key: str, problems: _Problems) -> Sequence[Any]:
    value = node.get(key)
    if value is None:
        return ()
    if isinstance(value, (str, Mapping)) or not isinstance(value, Sequence):
        problems.add(node, key, "WRONG_TYPE", f"{key}: is a list.")
        return ()
    return value


def _unknown_keys(node: Mapping[Any, Any], known: Iterable[str], problems: _Problems) -> None:
    for key in node:
        if key not in known:
            problems.add(node, key, "UNKNOWN_KEY", f'"{_text(key)}" is not a key here; the keys are {", ".join(known)}.')


def leaves(message: Message, above: Path = ()) -> Iterator[Path]:
    """Yields the paths of the leaves that are set in a message. An object or an entry of a map without leaves counts as a leaf."""
    for field, value in message.ListFields():
        path = (*above, field.name)
        entries = map_value(field)
        if entries is not None:
            for key in sorted(value):
                yield from _below(value[key], (*path, key)) if entries.message_type is not None else ((*path, key),)
        elif field.message_type is not None:
            yield from _below(value, path)
        else:
            yield path


def _below(message: Message, path: Path) -> Iterator[Path]:
    yield from leaves(message, path) if message.ListFields() else (path,)


# --- and back ---------------------------------------------------------------------------------------------------


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
