"""Reads records in which most fields are not set, and skips those fields quickly.

A document has some fifty fields, of which one to five are set. Each of the others is written in one certain way, such as the number of
null's branch, or an empty map. So whole runs of such fields are skipped at once, by a regular expression or, if the run goes to the end of
the record, by a comparison; fastavro reads the set fields one by one.
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
"""The most fields in one regular expression: its groups are nested, and compiling nested groups is recursive."""


class _Run(NamedTuple):
    """Matches, from one field on, as many fields as are not set."""

    match: Callable[[bytes, int], re.Match[bytes] | None]
    numbers: dict[int, int]
    """The number of the field behind the match, by the match's length."""


class SparseRecord:
    """Reads the fields of a record of one schema, which are numbered from 0."""

    def __init__(self, schema: Schema, types: Sequence[AvroType], nothing: Sequence[bytes | None]) -> None:
        """Makes the readers of the fields.

        Args:
            schema: the schema.
            types: the types of the record's fields, in order.
            nothing: the bytes of each field when it is not set; None: the field is always read.
        """
        self._readers = [_reader(schema, each) for each in types]
        self._nothing = nothing
        self._run = lru_cache(len(nothing) + 1)(self._make_run)
        self._rests: list[bytes | None] = [b""]
        """The bytes of all fields from each number on when none of them is set; None if one of them is always read."""
        for each in reversed(nothing):
            rest = self._rests[0]
            self._rests.insert(0, None if each is None or rest is None else each + rest)

    def read(self, data: bytes) -> list[tuple[int, AvroValue]]:
        """Returns the numbers and values of the fields whose bytes are not those of a field that is not set.

        Raises:
            ValueError: bytes are left over, or the data is damaged (``DAMAGE``).
        """
        found: list[tuple[int, AvroValue]] = []
        readers, run_of, rests = self._readers, self._run, self._rests
        count = len(readers)
        source: io.BytesIO | None = None
        at = number = 0
        while True:
            rest = rests[number]
            if rest is not None and len(data) - at == len(rest) and data.endswith(rest):  # the usual end: no later field is set
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
    parsed, options = schema.alone(avro), schema.options
    read: Any = fastavro.schemaless_reader
    return lambda source: read(source, parsed, None, **options)["value"]
