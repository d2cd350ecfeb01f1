"""Limits of a schema, checked before anything is read with it, so that reading takes time and memory in proportion to the data.

Any client that may register schemas for a log chooses the types that its payloads are read with. A record that contains itself makes
unlimited depth, and an array whose items have no bytes makes unlimited length, from almost no data: some hundred bytes end a process, or
block it for minutes. Named types also make a schema larger than its text: with thirty records, each of which has two fields of the type of
the record before, one value consists of a thousand million values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

_DEEPEST = 64
"""The most levels of nested types. Pulsar 4.2.4's schema has 11."""
_LARGEST = 10_000
"""The largest size: the nested types, each counted wherever it is named, plus the bytes of fixed types. Pulsar 4.2.4's schema has 282."""
_IDLE = 64
"""The most values without bytes in one item of an array or map."""
_PRIMITIVES = frozenset({"boolean", "int", "long", "float", "double", "bytes", "string"})


class _Measure(NamedTuple):
    """How large a type is, including the types that it names."""

    depth: int
    size: int
    least: int
    """The fewest bytes that a value of the type can have."""
    idle: int
    """The most values without bytes that a value of the type can contain."""


class SchemaBounds:
    """Measures the types of one schema, as ``fastavro.parse_schema`` returns them."""

    def __init__(self) -> None:
        """Has measured no type yet."""
        self._named: dict[str, _Measure] = {}
        self._begun: set[str] = set()

    def check(self, avro: Any) -> None:
        """Checks that a schema is within the limits.

        Raises:
            ValueError: the schema exceeds a limit, contains itself, or is not valid.
        """
        self._measure(avro)

    def _measure(self, avro: Any) -> _Measure:
        measure = self._of(avro)
        if measure.depth > _DEEPEST:
            raise ValueError(f"its types are more than {_DEEPEST} levels deep")
        if measure.size > _LARGEST:
            raise ValueError(f"it is of more than {_LARGEST} types and bytes, with what it names")
        return measure

    def _of(self, avro: Any) -> _Measure:
        if isinstance(avro, list):
            branches = [self._measure(branch) for branch in avro]
            idle = max((each.idle - 1 for each in branches if each.idle), default=0)  # the byte of the branch's number pays for one
            return _Measure(_deepest(branches), 1 + sum(each.size for each in branches), 1, idle)
        if not isinstance(avro, dict):
            return self._by_name(str(avro))
        kind = avro["type"]
        if isinstance(kind, (dict, list)):
            return self._measure(kind)
        if "name" in avro and kind in ("record", "enum", "fixed"):
            self._begun.add(avro["name"])
            measure = self._named[avro["name"]] = self._definition(avro)
            return measure
        if kind in ("array", "map"):
            return self._several(avro["items" if kind == "array" else "values"], keyed=kind == "map")
        return self._by_name(str(kind))

    def _by_name(self, name: str) -> _Measure:
        if name in self._named:
            return self._named[name]
        if name in self._begun:
            raise ValueError(f'its type "{name}" contains itself')
        if name == "null":
            return _Measure(1, 1, 0, 1)
        if name not in _PRIMITIVES:
            raise ValueError(f'it has a type "{name}", which is not a type of values')
        return _Measure(1, 1, 1, 0)

    def _definition(self, avro: Any) -> _Measure:
        if avro["type"] == "enum":
            if not avro["symbols"]:
                raise ValueError(f'its enum "{avro["name"]}" has no symbols')
            return _Measure(1, 1, 1, 0)
        if avro["type"] == "fixed":
            return _Measure(1, 1 + avro["size"], avro["size"], int(avro["size"] == 0))
        twice = [name for name, count in Counter(field["name"] for field in avro["fields"]).items() if count > 1]
        if twice:
            raise ValueError(f'its record "{avro["name"]}" has the field "{twice[0]}" twice')
        fields = [self._measure(field["type"]) for field in avro["fields"]]
        least = sum(each.least for each in fields)
        return _Measure(_deepest(fields), 1 + sum(each.size for each in fields), least, (least == 0) + sum(each.idle for each in fields))

    def _several(self, item: Any, *, keyed: bool) -> _Measure:
        each = self._measure(item)
        if each.least == 0 and not keyed:
            raise ValueError("it has an array whose items may have no bytes")
        if each.idle > _IDLE:
            raise ValueError(f"it has more than {_IDLE} values without bytes in each item of an array or map")
        return _Measure(1 + each.depth, 1 + each.size, 1, 0)


def _deepest(parts: Iterable[_Measure]) -> int:
    return 1 + max((each.depth for each in parts), default=0)
