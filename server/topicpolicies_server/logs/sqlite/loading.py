"""What is stored of a namespace, read and decoded page by page on another thread, so that the loop goes on meanwhile."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ...core.policies.events import Placed
from .. import rows
from ..avro import Codec
from . import file

PAGE = 64
"""Entries that are read, decoded and delivered at a time: some two milliseconds of the interpreter, which the loop has to wait for."""


class Codecs:
    """The codecs of the schemas that the file's payloads were written with."""

    def __init__(self, codec: Codec, definitions: Mapping[int, str]) -> None:
        """``codec`` is the one that is written with; the others are made when they are needed."""
        self._definitions = definitions
        self._by_text = {definition_of(codec): codec}

    def get(self, schema: int) -> Codec:
        """The codec of a schema's id.

        Raises:
            KeyError: the file has no such schema.
            UnsupportedSchema: it is not one of policy events.
        """
        definition = self._definitions[schema]
        codec = self._by_text.get(definition)
        if codec is None:
            codec = self._by_text[definition] = Codec(definition)
        return codec


def definition_of(codec: Codec) -> str:
    """A codec's schema as text."""
    return codec.definition if isinstance(codec.definition, str) else json.dumps(codec.definition)


class Loading:
    """The entries of a namespace up to a row, as they were when reading began, whatever is deleted meanwhile.

    Its methods are called from one thread at a time, not the loop's.
    """

    def __init__(self, path: Path, codecs: Codecs, namespace_id: int, last: int) -> None:
        """Prepares to read the rows up to ``last``; touches nothing yet."""
        self._path = path
        self._codecs = codecs
        self._range = file.place_of(namespace_id, 1), file.place_of(namespace_id, last)
        self._connection: sqlite3.Connection | None = None
        self._pages: Iterator[Sequence[file.EventRow]] = iter(())

    def begin(self) -> None:
        """From now on nothing that is deleted will be missing.

        Raises:
            sqlite3.Error: the file can't be read.
        """
        self._connection = file.connect(self._path)
        file.hold_still(self._connection)
        self._pages = file.pages(self._connection, *self._range, PAGE)

    def next_page(self) -> list[Placed]:
        """The next entries, none at the end.

        Raises:
            sqlite3.Error: the file can't be read.
        """
        return [self._placed(row) for row in next(self._pages, ())]

    def close(self) -> None:
        """Ends reading, at the end or before it."""
        if self._connection is not None:
            self._connection.close()

    def _placed(self, row: file.EventRow) -> Placed:
        place, published_at, schema, key, properties, payload = row
        try:
            event, problem = self._codecs.get(schema).read(key, payload, _strings(properties))
        except (ValueError, KeyError) as error:  # damage to what no codec looks at
            event, problem = None, f"not an entry of a change log: {error!r}"
        return Placed(0, rows.position_of(file.row_at(place)), event, published_at, "", problem)


def _strings(text: str) -> dict[str, str]:
    found = json.loads(text)
    if not isinstance(found, dict) or not all(type(value) is str for value in found.values()):
        raise ValueError("its properties are not strings by name")
    return found
