"""Documents as bytes, each setting with its name, in the order in which the document has them.

A document is the number of its settings and, for each, a code of its name, the length of its value and the value. The code is the number of
the setting's field in ``TopicPolicies``, which never changes; 0 is followed by the name itself (an entry of a map, or a field that only a
newer broker knows). Numbers are written as Protobuf writes them.
"""

from __future__ import annotations

from collections.abc import Mapping

from .documents import FIELDS, GROUPS, MAPS, Setting, Settings, read_varint, varint


class Damaged(ValueError):
    """Bytes that are not what was packed."""


_CODES: Mapping[Setting, int] = {
    **{name: field.number for name, field in FIELDS.items() if name not in MAPS and name not in GROUPS},
    **{group: min(FIELDS[name].number for name in GROUPS if GROUPS[name] == group) for group in GROUPS.values()},
}
_NAMES: Mapping[int, Setting] = {code: name for name, code in _CODES.items()}
assert len(_NAMES) == len(_CODES), "no two settings have the same code"


def is_like(document: Settings | None, other: Settings | None) -> bool:
    """Whether two documents have the same settings in the same order: what is told of changes has that order."""
    if document is other:
        return True
    return document is not None and other is not None and document == other and list(document) == list(other)


def pack(document: Settings, into: bytearray) -> None:
    """Adds a document at the end of ``into``."""
    _number(len(document), into)
    for name, value in document.items():
        code = _CODES.get(name)
        if code is not None:
            _number(code, into)
        else:
            text = name.encode("utf-8", "surrogatepass")
            into.append(0)
            _number(len(text), into)
            into += text
        _number(len(value), into)
        into += value


def unpack(data: bytes, at: int) -> tuple[dict[Setting, bytes], int]:
    """The document that begins at ``at``, and where it ends.

    Raises:
        Damaged, IndexError, UnicodeDecodeError: there is none.
    """
    count = data[at]
    at += 1
    if count > 0x7F:
        count, at = read_varint(data, at - 1)
    document: dict[Setting, bytes] = {}
    for _ in range(count):
        code = data[at]
        at += 1
        if code > 0x7F:
            code, at = read_varint(data, at - 1)
        if code:
            name = _NAMES.get(code)
            if name is None:
                raise Damaged(f"no setting has the code {code}")
        else:
            length, at = read_varint(data, at)
            name = data[at : at + length].decode("utf-8", "surrogatepass")
            at += length
        length = data[at]
        at += 1
        if length > 0x7F:
            length, at = read_varint(data, at - 1)
        end = at + length
        document[name] = data[at:end]
        at = end
    if at > len(data):
        raise Damaged("it ends within a document")
    return document, at


def _number(number: int, into: bytearray) -> None:
    if number < 0x80:
        into.append(number)
    else:
        into += varint(number)
