"""What is disabled of what is watched, and notices when that changes (``source.PROPERTY``).

Pulsar does not notify anyone when a property changes. So one task looks at all selections that are watched in turn, at most ``_PER_SECOND``
of them a second. It uses the facts that are at hand, which has old ones refreshed (``cache``), and never waits for brokers.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from ..core.errors import PolicyError
from ..tasks import RestartedTask
from .admission import Admission

_PER_SECOND = 50


class Disabled(frozenset[str]):
    """What is disabled of a selection that is watched in a namespace: those of its topics, or the namespace itself if it names none."""

    def all_of(self, topics: frozenset[str] | None) -> bool:
        """Whether everything that is watched is disabled; None: the selection is the namespace."""
        return bool(self) if topics is None else len(self) == len(topics)

    @property
    def digest(self) -> str:
        """A digest of the names, for tokens; "": nothing is disabled."""
        return hashlib.blake2b("\n".join(sorted(self)).encode(), digest_size=8).hexdigest() if self else ""


class _Watched(NamedTuple):
    namespace: str
    topics: frozenset[str] | None
    switched: Callable[[Disabled], None]


class DisabledWatching:
    """The selections that are watched. It is bound to one event loop."""

    def __init__(self, admission: Admission) -> None:
        """``admission``: looks up what the properties say."""
        self._admission = admission
        self._watched: dict[object, _Watched] = {}
        self._looking = RestartedTask("looking for disabled topics", self._look)

    async def begin(self, watcher: object, namespace: str, topics: frozenset[str] | None, switched: Callable[[Disabled], None]) -> Disabled:
        """Returns what is disabled of a selection now, and has each later answer sent to ``switched``, until ``end``.

        Args:
            watcher: names the selection.
            namespace: ``tenant/namespace``.
            topics: the topics that are watched; None: the namespace.
            switched: called with what is disabled, also if it is the same as before.

        Raises:
            PolicyError: what the namespace's property says is not known, and can't be found out.
        """
        disabled = Disabled(await self._admission.disabled_of(namespace, topics))
        self._watched[watcher] = _Watched(namespace, topics, switched)
        self._looking.start()
        return disabled

    def end(self, watcher: object) -> None:
        """Ends what ``begin`` began; does nothing if it was not begun."""
        self._watched.pop(watcher, None)
        if not self._watched:
            self._looking.cancel()

    async def _look(self) -> None:
        while True:
            turns = list(self._watched.items())
            pause = max(1 / _PER_SECOND, self._admission.namespace_seconds / 2 / max(len(turns), 1))
            for watcher, watched in turns or ((None, None),):
                await asyncio.sleep(pause)
                if watched is not None and self._watched.get(watcher) is watched:
                    with suppress(PolicyError):
                        found = await self._admission.disabled_of(watched.namespace, watched.topics, stale=True)
                        watched.switched(Disabled(found))
