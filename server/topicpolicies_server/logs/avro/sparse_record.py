"""Records most of whose fields say nothing: reads those that do.

A document has some fifty fields, of which one to five say something. The others are written in one way, such as null's branch or an empty
map. So whole runs of them are passed over at once, by a regular expression or, up to the end, by a comparison, and each field that is
there is read by fastavro alone.

| at | are | then |
|---|---|---|
| any field | bytes by which it, and perhaps those that follow, say nothing | as many fields are passed over |
| any field | other bytes | the field is read, whatever it says |
| the end of the bytes | no field is left | the record is read |
| the end of the bytes | fields are left | it is damaged |
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import fastavro

from .schema import DAMAGE, AvroType, AvroValue, Schema, in_words

_LONGEST_RUN = 64
"""Fields in one regular expression, whose groups stand in each other: compiling them is a recursion."""


class _Run(NamedTuple):
    """From one field on, as many as say nothing."""

    match: Callable[[bytes, int], re.Match[bytes] | None]
    numbers: dict[int, int]
    """By their bytes the number of the next field."""


class SparseRecord:
    """The fields of a record in one schema, by their numbers from 0 on."""

    def __init__(self, schema: Schema, types: Sequence[AvroType], nothing: Sequence[bytes | None]) -> None:
        """``types``: of the fields, in order; ``nothing``: the bytes of each by which it says nothing, None: it is always read."""
        self._readers = [_reader(schema, each) for each in types]
        self._nothing = nothing
        self._run = lru_cache(len(nothing) + 1)(self._make_run)
        self._rests: list[bytes | None] = [b""]
        """From each field on, the bytes by which all say nothing; None: one of them is always read."""
        for each in reversed(nothing):
            rest = self._rests[0]
            self._rests.insert(0, None if each is None or rest is None else each + rest)

    def read(self, data: bytes) -> list[tuple[int, AvroValue]]:
        """The numbers and values of the fields that do not say nothing in the usual way.

        Raises:
            ValueError: bytes are left over, or the data is damaged in one of the many ways in which fastavro says so.
        """
        found: list[tuple[int, AvroValue]] = []
        readers, run_of, rests = self._readers, self._run, self._rests
        count = len(readers)
        source: io.BytesIO | None = None
        at = number = 0
        while True:
            rest = rests[number]
            if rest is not None and len(data) - at == len(rest) and data.endswith(rest):  # mostly so, behind the last that says something
                return found
            run = run_of(number)
            passed = run.match(data, at)
            assert passed is not None, "it matches nothing at all too"
            end = passed.end()
            number = run.numbers[end - at]
            at = end
            if number == count:
                break
            if source is None:
                source = io.BytesIO(data)
            source.seek(at)
            try:
                value = readers[number](source)
            except DAMAGE as error:
                raise ValueError(in_words(error)) from error
            found.append((number, value))
            at = source.tell()
            number += 1
        if at < len(data):
            raise ValueError(f"{len(data) - at} bytes are left over")
        return found

    def _make_run(self, number: int) -> _Run:
        parts: list[bytes] = []
        for each in self._nothing[number : number + _LONGEST_RUN]:
            if each is None:
                break
            parts.append(each)
        pattern, numbers, size = b"", {0: number}, 0
        for part in reversed(parts):
            pattern = b"(?:" + re.escape(part) + pattern + b")?"
        for at, part in enumerate(parts, number + 1):
            size += len(part)
            numbers[size] = at
        return _Run(re.compile(pattern, re.DOTALL).match, numbers)


def _reader(schema: Schema, avro: AvroType) -> Callable[[io.BytesIO], AvroValue]:
    """Reads a value of a type; as the field of a record, since fastavro looks at any other schema anew each time."""
    parsed: Any = fastavro.parse_schema(
        {"type": "record", "name": schema.unused_name("Sparse"), "fields": [{"name": "value", "type": schema.self_contained(avro)}]}
    )
    read: Any = fastavro.schemaless_reader
    options = schema.options
    return lambda source: read(source, parsed, None, **options)["value"]
