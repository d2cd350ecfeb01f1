"""The schemas of a change log: which one to write with, and which one an event was written with.

A topic's schemas are numbered from 0, in order of registration, and each message carries the number of its own. Any client may register any
schema on ``__change_events`` (its compatibility check is off), so a schema that is not one of policy events is skipped.
"""

from __future__ import annotations

import asyncio
import logging
from functools import lru_cache
from typing import NamedTuple

from ...avro import PULSAR_4_2_4, Codec, Dialect, UnsupportedSchema
from .answer import understood
from .api import Admin

_log = logging.getLogger(__name__)

NOT_REGISTERED = -1
"""The version of a schema that the topic does not have, and of messages that carry none."""
_CODECS = 32
"""For how many schemas codecs are cached, for all logs of the process together, including the codecs' own caches of topics and
documents."""


class Registered(NamedTuple):
    """A schema's codec and its version."""

    version: int
    codec: Codec

    @property
    def definition(self) -> str:
        """The text of the schema, verbatim."""
        return str(self.codec.definition)


class Schemas:
    """The schemas of one log, each requested once."""

    def __init__(self, admin: Admin, namespace: str, local: str, *, cluster: str, dialect: Dialect) -> None:
        self._admin = admin
        self._path = (*namespace.split("/"), local)
        self._name = f"{namespace}/{local}"
        self._cluster = cluster
        self._dialect = dialect
        self._codecs: dict[int, Codec | None] = {}
        self._lock = asyncio.Lock()
        self.newest = Registered(NOT_REGISTERED, self._codec(PULSAR_4_2_4))
        """What to write with, as far as is known: the newest schema, or, as long as the topic has none, that of Pulsar 4.2.4."""

    @understood
    async def refresh(self) -> Registered:
        """Asks the broker for the newest schema, and returns what to write with.

        Raises:
            LogError: the broker gave no answer.
        """
        answer = await self._admin.get("schemas", *self._path, "schema")
        if answer is not None:
            version = int(answer["version"])
            while (codec := await self.written_with(version)) is None and version > 0:
                version -= 1
            if codec is not None and version != self.newest.version:
                self.newest = Registered(version, codec)
        return self.newest

    def known(self, version: int) -> Codec | None:
        """Returns the codec of a schema if it is at hand."""
        return self.newest.codec if version in (NOT_REGISTERED, self.newest.version) else self._codecs.get(version)

    @understood
    async def written_with(self, version: int) -> Codec | None:
        """Returns the codec of a schema version; None if that version does not exist, or is not a schema of policy events.

        Raises:
            LogError: the broker gave no answer.
        """
        if (codec := self.known(version)) is not None:
            return codec
        async with self._lock:
            if version not in self._codecs:
                self._codecs[version] = await self._fetch(version)
            codec = self._codecs[version]
        if codec is not None and version > self.newest.version:
            self.newest = Registered(version, codec)
        return codec

    async def _fetch(self, version: int) -> Codec | None:
        answer = await self._admin.get("schemas", *self._path, "schema", str(version))
        if answer is None:
            _log.warning("The schema %d of %s is gone.", version, self._name)
            return None
        try:
            if answer.get("type") != "AVRO":
                raise UnsupportedSchema(f"its type is {answer.get('type')}")
            return self._codec(str(answer["data"]))
        except UnsupportedSchema as error:
            _log.warning("The schema %d of %s is not one of policy events: %s", version, self._name, error)
            return None

    def _codec(self, definition: str) -> Codec:
        return _codec(definition, self._cluster, self._dialect)


@lru_cache(_CODECS)
def _codec(definition: str, cluster: str, dialect: Dialect) -> Codec:
    """Returns the codec of a schema: most logs of a cluster have the same one, and creating it takes two milliseconds.

    Raises:
        UnsupportedSchema: the schema is not one of policy events.
    """
    return Codec(definition, local_cluster=cluster, dialect=dialect)
