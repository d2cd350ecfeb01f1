"""The file of declared policies: parses YAML into declarations, and writes a file that declares documents as they are.

::

    version: 1
    namespaces: [public/default]            # where --prune may delete documents; not needed otherwise
    policies:
      - pattern: public/default/orders-*    # every known topic that it matches
        set:
          max_producer_per_topic: 5
      - topic: public/default/orders-eu     # a later declaration of a field overrides an earlier one, a topic's overrides a pattern's
        scope: global                       # the default is local
        set:
          max_producer_per_topic: 10
          retention_policies: {retention_time_in_minutes: 10, retention_size_in_mb: 100}
          message_ttl_in_seconds: null      # to be unset

Only what is declared is compared and changed: other fields, and other leaves of a declared object, are left alone.
"""

from __future__ import annotations

import io
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
from ruamel.yaml.representer import RoundTripRepresenter

from topicpolicies import SCOPE_GLOBAL, SCOPE_LOCAL, PolicyDocument, Scope, TopicPolicies, Violation
from topicpolicies.masks import Path
from topicpolicies.names import namespace_of
from topicpolicies.values import ValueProblem, assign, enum_name, locate, map_value

from ...core.errors import PolicyError
from ...core.names import parse_namespace, parse_topic
from ..arguments import is_unicode
from ..files import name_of, read_text, wrong

VERSION = 1
_TOP = ("version", "namespaces", "policies")
_SCOPES = {"local": SCOPE_LOCAL, "global": SCOPE_GLOBAL}
_ENTRY = ("topic", "pattern", "scope", "set")
_WILD = "*?["
_HALF = "half of a character (a surrogate without its other half)"
_NOT_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Characters that JSON may contain literally, and YAML may not."""
_NEXT_LINE = "\x85"
_ENDLESS = 1 << 30
"""The width of the lines that are written: a text that the library breaks into several is not always read as it was."""


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
    """The content of a file."""

    namespaces: tuple[str, ...]
    """The namespaces in which ``--prune`` may delete documents."""
    declarations: tuple[Declaration, ...]


class _Problems:
    def __init__(self, name: str) -> None:
        self._name = name
        self.found: list[Violation] = []

    def add(self, node: Any, key: object, reason: str, sentence: str) -> None:
        """Adds a problem at a key of a node, with its line."""
        self.found.append(Violation(f"{self._name}:{_line(node, key)}", reason, sentence))


def load(path: FilePath) -> Declared:
    """Reads a file.

    Raises:
        InvalidArgument: the file is wrong; the error has all problems, each with its line.
        OSError: the file can't be read.
    """
    return parse(read_text(path), name_of(path))


def parse(text: str, name: str) -> Declared:
    """Parses the text of a file. ``name``: the file's name, for problems.

    Raises:
        InvalidArgument: the text is wrong; the error has all problems, each with its line.
    """
    problems = _Problems(name)
    try:
        root = YAML(typ="rt", pure=True).load(text)
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
    declared = _declared(root, problems)
    if problems.found:
        raise wrong(*problems.found)
    return declared


def _declared(root: Any, problems: _Problems) -> Declared:
    if not isinstance(root, Mapping):
        problems.add(root, None, "WRONG_TYPE", "The file is not a mapping: begin with version: 1 and policies:.")
        return Declared((), ())
    _unknown_keys(root, _TOP, problems)
    if root.get("version") != VERSION or isinstance(root.get("version"), bool):
        problems.add(root, "version", "UNKNOWN_VERSION", f"Write version: {VERSION}; this program knows no other.")
    namespaces: list[str] = []
    for each in _list(root, "namespaces", problems):
        if not is_unicode(_text(each)):
            problems.add(root, "namespaces", "MALFORMED_NAME", f"namespaces: has {_HALF}.")
            continue
        try:
            namespaces.append(parse_namespace(_text(each)))
        except PolicyError as error:
            problems.add(root, "namespaces", "MALFORMED_NAME", error.message)
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
    topic = _topic(_text(entry.get(key, "")), pattern, entry, key, problems) if key in entry else ""
    scope = _SCOPES.get(_text(entry.get("scope", "local")).lower())
    if scope is None:
        problems.add(entry, "scope", "UNKNOWN_SCOPE", f'"{_text(entry["scope"])}" is not a scope: write local or global.')
    wanted = entry.get("set")
    values, unset = TopicPolicies(), []
    if not isinstance(wanted, Mapping):
        problems.add(entry, "set", "WRONG_TYPE", "set: is a mapping of fields to values.")
    else:
        for name, value in wanted.items():
            try:
                _text(name).encode()
                target = locate(TopicPolicies.DESCRIPTOR, _text(name))
                assign(values, target, _without_marks(value, {}))
                if value is None or value in ([], {}):
                    unset.append(target.path)
            except ValueProblem as problem:
                problems.add(wanted, name, problem.reason, str(problem))
            except UnicodeEncodeError:
                problems.add(wanted, name, "WRONG_VALUE", f"{_text(name)} has {_HALF}.")
    if scope is None or len(problems.found) > before:
        return None
    return Declaration(topic, pattern, scope, values, tuple(leaves(values)), tuple(unset))


def _topic(text: str, pattern: bool, entry: Any, key: str, problems: _Problems) -> str:
    try:
        name = parse_topic(text)
    except PolicyError as error:
        problems.add(entry, key, "MALFORMED_NAME", error.message)
        return ""
    if not is_unicode(text):
        problems.add(entry, key, "MALFORMED_NAME", f"{key}: has {_HALF}.")
    if pattern and any(letter in f"{name.tenant}{name.namespace_part}" for letter in _WILD):
        problems.add(
            entry, key, "MALFORMED_NAME", "A pattern names its tenant and namespace; only the topic's own name may have wildcards."
        )
    return str(name)


def _without_marks(value: Any, made: dict[int, Any]) -> Any:
    """Returns a value with plain lists and mappings. ``made``: those by the id of the original: what is named twice is made once."""
    if isinstance(value, str) or not isinstance(value, Collection) or id(value) in made:
        return made.get(id(value), value)
    if isinstance(value, Mapping):
        entries = made[id(value)] = {}
        entries.update({key: _without_marks(each, made) for key, each in value.items()})
        return entries
    elements = made[id(value)] = []
    elements.extend(_without_marks(each, made) for each in value)
    return elements


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


def _line(node: Any, key: object) -> int:
    """Returns the line of a key of a node, or else of the node itself; counted from 1."""
    position = getattr(node, "lc", None)
    if position is None:
        return 1
    where = (position.data or {}).get(key)
    return int(where[0] if where is not None else position.line or 0) + 1


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


class _Representer(RoundTripRepresenter):
    """Writes texts so that they are read as they were."""

    def represent_str(self, data: str) -> Any:
        """Escapes a text with U+0085, which counts as a line end where it stands as it is."""
        return self.represent_scalar("tag:yaml.org,2002:str", data, style='"' if _NEXT_LINE in data else None)


_Representer.add_representer(str, _Representer.represent_str)


def export(documents: Iterable[PolicyDocument], namespaces: Iterable[str]) -> str:
    """Returns the YAML file that declares documents as they are."""
    yaml = YAML(typ="rt", pure=True)
    yaml.Representer = _Representer
    yaml.default_flow_style = False
    yaml.width = _ENDLESS
    yaml.indent(mapping=2, sequence=4, offset=2)
    text = io.StringIO()
    yaml.dump(_declaring(documents, namespaces), text)
    return text.getvalue()


def export_json(documents: Iterable[PolicyDocument], namespaces: Iterable[str]) -> str:
    """Returns the file that declares documents as they are, as one line of JSON that is also YAML."""
    text = json.dumps(_declaring(documents, namespaces), ensure_ascii=False)
    return _NOT_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n"


def _declaring(documents: Iterable[PolicyDocument], namespaces: Iterable[str]) -> dict[str, Any]:
    entries = []
    for document in documents:
        if document.HasField("policies"):
            scope = {"scope": "global"} if document.scope == SCOPE_GLOBAL else {}
            entries.append({"topic": document.topic} | scope | {"set": _plain(document.policies)})
    return {"version": VERSION, "namespaces": list(namespaces), "policies": entries}


def _plain(message: Message) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for field, value in sorted(message.ListFields(), key=lambda item: item[0].name):
        entries = map_value(field)
        if entries is not None:
            plain[field.name] = {key: _value(entries, value[key]) for key in sorted(value)}
        elif field.is_repeated:
            plain[field.name] = [_value(field, each) for each in value]
        else:
            plain[field.name] = _value(field, value)
    return plain


def _value(field: FieldDescriptor, value: Any) -> Any:
    if field.message_type is not None:
        return _plain(value)
    if field.enum_type is not None:
        name = enum_name(field.enum_type, value)
        return int(name) if name.isdigit() else name.lower()
    return value
