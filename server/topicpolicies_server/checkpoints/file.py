"""The file of one namespace's checkpoint: written whole beside the former one and renamed into its place, and refused unless it is whole.

::

    MAGIC
    a block    the header, in JSON: whose checkpoint it is, of which place, and how many keys and requests follow
    blocks     the names and cells of keys; then the names and answers of requests that were applied lately, the oldest first

A block is its length, its checksum (CRC-32, continued from the block before) and its content: behind the header two lists, as Python's
``marshal`` writes them. The header stands first, so that a file of another log, release or Python is refused before that is read.
"""

from __future__ import annotations

import hashlib
import json
import marshal
import os
import struct
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from urllib.parse import quote
from zlib import crc32

from topicpolicies.v1 import policies_pb2

from ..core.fold.fold import FoldContext
from ..core.policies.events import Position
from ..core.reading.view import Copy, View
from ..logs.change_log import Start

MAGIC = b"topicpolicies checkpoint 1\n"
"""How a file of this format begins."""
_ENDING, _UNFINISHED = ".checkpoint", ".tmp"
_NAME = 200
"""The most characters of a namespace's name in that of its file; the header has all of them."""
_BLOCK = 1 << 20
"""After how many bytes a block ends. Writing or checking it lets other threads run."""
_MOST = 1 << 30
_BEGINNING = struct.Struct("=II")
_WITHOUT_REFERENCES = 2
"""The version of ``marshal``'s format: later ones look each object up, to write it once only."""


class Refused(Exception):
    """Raised for a file that is no checkpoint from which this server can start. The message says why."""


class Place(NamedTuple):
    """The place of a view in its log."""

    start: Start
    """The place from which the log is to be read to continue the view."""
    events: tuple[Position, ...]
    """By partition: the position of the last entry that a history records (an event, or an unreadable entry); "" if there was none."""


class Checkpoint(NamedTuple):
    """What is written of a namespace."""

    namespace: str
    place: Place
    context: FoldContext
    """What the fold knew besides the log."""
    unreadable: int
    """How many entries of the log could not be read."""
    view: Copy


class Restored(NamedTuple):
    """A view that was restored from a checkpoint."""

    place: Place
    view: View
    unreadable: int
    """How many entries of the log could not be read."""


_SERVER = Path(__file__).parents[1]
_MAKERS = ("core", "logs/avro", "checkpoints")
"""The folders whose sources decide what is derived from a log's events, and how it is written."""


@cache
def maker() -> str:
    """Returns what a checkpoint depends on besides its log: the release, a digest of its sources and of its documents' form, the Python."""
    made = hashlib.blake2b(policies_pb2.DESCRIPTOR.serialized_pb, digest_size=8)
    for path in sorted(path for folder in _MAKERS for path in (_SERVER / folder).rglob("*.py")):
        made.update(path.read_bytes())
    return f"{metadata.version('topicpolicies')}/{made.hexdigest()}/{sys.implementation.cache_tag}/{sys.byteorder}"


def path_of(folder: Path, namespace: str) -> Path:
    """Returns the file of a namespace's checkpoint."""
    return folder / (quote(namespace, safe="")[:_NAME] + _ENDING)


def write(folder: Path, checkpoint: Checkpoint) -> None:
    """Writes a checkpoint in place of the former one. Whenever the process or the machine ends, the file is the former or the new one.

    Raises:
        OSError: it can't be written; the former one is still there.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    path = path_of(folder, checkpoint.namespace)
    handle, name = tempfile.mkstemp(dir=folder, prefix=f"{path.name}.", suffix=_UNFINISHED)  # for its owner only
    unfinished = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            dump(checkpoint, file)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def clear(folder: Path) -> None:
    """Removes the files that a killed process left unfinished.

    Raises:
        OSError: they can't be removed.
    """
    for unfinished in folder.glob(f"*{_ENDING}.*{_UNFINISHED}"):
        unfinished.unlink(missing_ok=True)


def read(folder: Path, namespace: str, context: FoldContext) -> Restored:
    """Restores the view of a namespace's checkpoint. ``context``: what the fold knows now, before the log is open.

    Raises:
        FileNotFoundError: there is none.
        OSError: it can't be read.
        Refused: it is damaged, or not this release's checkpoint of the namespace.
    """
    with path_of(folder, namespace).open("rb") as file:
        return load(file, namespace, context)


def dump(checkpoint: Checkpoint, file: BinaryIO) -> None:
    """Writes a checkpoint to a file."""
    view = checkpoint.view
    header = {
        "namespace": checkpoint.namespace,
        "made_by": maker(),
        "place": checkpoint.place,
        "context": checkpoint.context._asdict(),
        "unreadable": checkpoint.unreadable,
        "document_bytes": view.document_bytes,
        "number": view.number,
        "forgotten": view.forgotten,
        "times": view.times,
        "keys": len(view.names),
        "requests": len(view.requests),
    }
    names = [*view.names, *(name for name, _ in view.requests)]
    values: list[Any] = [*view.cells, *(answer for _, answer in view.requests)]
    file.write(MAGIC)
    checksum = crc32(MAGIC)
    for block in (json.dumps(header).encode("ascii"), *_blocks(names, values)):
        checksum = crc32(block, checksum)
        file.write(_BEGINNING.pack(len(block), checksum))
        file.write(block)


def load(file: BinaryIO, namespace: str, context: FoldContext) -> Restored:
    """Restores the view of the checkpoint in a file.

    Raises:
        OSError, Refused: as for ``read``.
    """
    if file.read(len(MAGIC)) != MAGIC:
        raise Refused("it is no checkpoint of this format")
    blocks = _checked(file)
    try:
        header = json.loads(next(blocks))
        _judge(header, namespace, context)
        names: list[str] = []
        values: list[Any] = []
        for block in blocks:
            some, of_them = marshal.loads(block)  # noqa: S302 (its checksum is right, and it is this user's file)
            names += some
            values += of_them
        keys = header["keys"]
        if not len(names) == len(values) == keys + header["requests"]:
            raise Refused("it is not of the length that was written")
        requests = list(zip(names[keys:], values[keys:], strict=True))
        (identity, positions, anchors, in_place), events = header["place"]
        view = View(FoldContext(**header["context"])._replace(joining=False))
        forgotten, times = ({int(partition): value for partition, value in header[name].items()} for name in ("forgotten", "times"))
        view.restore(Copy(names[:keys], values[:keys], header["number"], forgotten, times, requests, header["document_bytes"]))
        place = Place(Start(identity, tuple(positions), tuple(anchors), in_place), tuple(events))
        return Restored(place, view, header["unreadable"])
    except (ValueError, TypeError, LookupError, AttributeError, StopIteration, EOFError) as error:
        raise Refused(f"it is damaged ({type(error).__name__}: {error})") from error


def _judge(header: dict[str, Any], namespace: str, context: FoldContext) -> None:
    """Raises ``Refused`` unless this release would fold this namespace's log as it was folded for the checkpoint."""
    if header["namespace"] != namespace:
        raise Refused(f"it is that of {header['namespace']}")
    if header["made_by"] != maker():
        raise Refused("another release, or another Python, made it")
    if [header["context"][name] for name in ("window_ms", "sole_writer")] != [context.window_ms, context.sole_writer]:
        raise Refused("it was made for another kind of log")


def _blocks(names: Sequence[str], values: Sequence[str | bytes]) -> Iterator[bytes]:
    begin = 0
    while begin < len(names):
        end, size = begin, 0
        while end < len(names) and size < _BLOCK:
            size += len(names[end]) + len(values[end])
            end += 1
        yield marshal.dumps((list(names[begin:end]), list(values[begin:end])), _WITHOUT_REFERENCES)
        begin = end


def _checked(file: BinaryIO) -> Iterator[bytes]:
    checksum = crc32(MAGIC)
    while beginning := file.read(_BEGINNING.size):
        if len(beginning) < _BEGINNING.size:
            raise Refused("it is damaged")
        length, expected = _BEGINNING.unpack(beginning)
        block = file.read(length) if length <= _MOST else b""
        checksum = crc32(block, checksum)
        if len(block) != length or checksum != expected:
            raise Refused("it is damaged")
        yield block
