"""Documents encoded as bytes. The settings keep the order in which the document has them.

A packed document is the number of its settings, then for each setting a code of its name, the length of its value, and the value. The code
is the number of the setting's field in ``TopicPolicies``, which never changes (of a group, the lowest number of its fields). The code 0 is
followed by the length of the name and the name itself: an entry of a map, or a field that only a newer broker knows. Numbers are Protobuf
varints.
"""

from __future__ import annotations

from collections.abc import Mapping

from .documents import FIELDS, GROUPS, MAPS, Setting, Settings, read_varint, varint


class Damaged(ValueError):
    """Raised for bytes that can't be decoded: they are not as they were encoded."""


_CODES: Mapping[Setting, int] = {
    **{name: field.number for name, field in FIELDS.items() if name not in MAPS and name not in GROUPS},
    **{group: min(FIELDS[name].number for name in GROUPS if GROUPS[name] == group) for group in GROUPS.values()},
}
_NAMES: Mapping[int, Setting] = {code: name for name, code in _CODES.items()}
assert len(_NAMES) == len(_CODES), "no two settings have the same code"


def is_like(document: Settings | None, other: Settings | None) -> bool:
    """Returns whether two documents have the same settings in the same order. Reports of changes list settings in that order."""
    if document is other:
        return True
    return document is not None and other is not None and document == other and list(document) == list(other)


def pack(document: Settings, into: bytearray) -> None:
    """Appends a packed document to ``into``."""
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
    """Returns the document that is packed at ``at``, and the offset of its end.

    Raises:
        Damaged, IndexError, UnicodeDecodeError: the bytes are not a packed document.
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
