"""The guard keeps namespaces loaded, so that they are repaired: those that match its patterns and, as brokers say, have a change log.

Pulsar has no event for a log that comes into being, so the guard has to ask. There are three loops of questions:

- *What brokers have loaded*, one question for each broker, however many tenants and namespaces there are. Only a superuser may ask.
- *What tenants have*, one question for each tenant that may match, and for each matching namespace without a log whether it has one by now.
  As long as brokers say what they have loaded, this is asked rarely: it shows what is gone, and finds logs that no broker has loaded.
- Of a pattern without a wildcard, whether its namespace has a log.

Brokers are asked one question at a time, in the order in which the loops want to ask, a limited number in a second, and for no more than a
quarter of the time while answers take less than 1.7 s.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Any

from ..config.address import matching
from ..core.errors import PolicyError
from ..core.names import CHANGE_EVENTS
from ..core.reasons import LogState
from ..logs.change_log import LogError
from ..logs.pulsar.admin import Admin, names_of, understood
from ..namespaces.activity import Repair, difference, event_in_words
from ..namespaces.namespace import Namespace
from ..namespaces.registry import Registry
from ..tasks import RestartedTask

_LOG = logging.getLogger(__name__)
_TRYING_SECONDS = 5.0
"""How long a question is repeated while brokers do not answer."""
_SOON_SECONDS = 1.0
"""How often to ask what can't be learned in another way."""
_RARELY_SECONDS = 60.0
"""How often to ask what is also known in another way, or was refused; and to log that there are no answers, or no room."""
_AGAIN_SECONDS = 10.0
"""How often to ask which brokers there are, and whether a namespace that a pattern names still has its log; and when to try again what has
failed: to load a namespace, to ask what brokers have loaded, or to find namespaces at all."""
_LEAST_SECONDS = 1 / 20
"""The least time between two questions, whatever they are about."""
_REST_FACTOR, _LONGEST_REST_SECONDS = 3.0, 5.0
"""After an answer the guard asks nothing for this many times as long as it took, and no longer than that."""
_AT_ONCE = 10
"""How many namespaces begin to load before others have their turns: that takes some milliseconds."""


class Guard:
    """Finds the namespaces of a cluster that match and have a change log, and keeps them loaded. It belongs to one event loop."""

    def __init__(self, registry: Registry, admin: Admin, patterns: tuple[str, ...]) -> None:
        """Asks nothing yet.

        ``patterns``: which namespaces are wanted: ``tenant/namespace``, in which ``*`` stands for any characters but the slash.
        """
        self.found: frozenset[str] = frozenset()
        """The namespaces that match and have a change log."""
        self.changed = asyncio.Event()
        """Set when ``found`` has changed."""
        self._registry = registry
        self._held: dict[str, Namespace] = {}
        self._admin = admin
        self._turn = asyncio.Lock()
        self._next = 0.0
        self._exact = frozenset(text for text in patterns if "*" not in text)
        self._searched = [text for text in patterns if "*" in text]
        self._matching = matching(self._searched)
        self._tenants_matching = matching(text.partition("/")[0] for text in self._searched)
        self._named = frozenset(map(_tenant_of, self._searched))
        """The tenants of the patterns with wildcards, which may have wildcards themselves."""
        self._loaded: frozenset[str] | None = None
        """The matching namespaces that brokers have loaded; None: they do not all say."""
        self._warned_at = self._refused_at = float("-inf")
        self._refusal_told = False
        runs = {"finding out which namespaces to guard": self.find, "guarding the namespaces that were found": self._follow}
        self._tasks = [RestartedTask(name, run, pause_seconds=_AGAIN_SECONDS) for name, run in runs.items()]

    @property
    def guarded(self) -> int:
        """How many namespaces are kept loaded."""
        return len(self._held)

    def start(self) -> None:
        """Begins to guard, and to log repairs."""
        self._registry.common.activity.on_repair = tell_of_healing
        for task in self._tasks:
            task.start()

    async def stop(self) -> None:
        """Releases all namespaces."""
        for task in self._tasks:
            await task.stop()
        self._let_go(set(self._held))

    async def _follow(self) -> None:
        """Guards what was found, whenever that changes; what could not be loaded is tried again from time to time."""
        while True:
            self.changed.clear()
            self._let_go(self._held.keys() - self.found)
            await self._keep(self.found - self._held.keys())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_AGAIN_SECONDS):
                    await self.changed.wait()

    async def _keep(self, names: AbstractSet[str]) -> None:
        """Loads namespaces that are to be guarded, as far as there is room. Others have their turns between: there may be thousands."""
        refusals: list[tuple[str, PolicyError]] = []
        for number, name in enumerate(sorted(names), start=1):
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
            try:
                namespace = self._registry.get(name)
            except PolicyError as error:
                refusals.append((name, error))
                continue
            namespace.hold(self)
            self._held[name] = namespace
            _LOG.info("%s is guarded", name)
        now = asyncio.get_running_loop().time()
        if refusals and now - self._refused_at >= _RARELY_SECONDS:
            self._refused_at = now
            first, why = refusals[0]
            _LOG.warning("%s and %d others can't be guarded yet: %s", first, len(refusals) - 1, why.message)

    def _let_go(self, names: AbstractSet[str]) -> None:
        for name in names:
            self._held.pop(name).release(self)
            _LOG.info("%s is not guarded any more", name)

    # --- which namespaces ---------------------------------------------------------------------------------------------

    async def find(self) -> None:
        """Keeps ``found`` up to date, forever. It may be called again after an error, and goes on from there."""
        async with asyncio.TaskGroup() as loops:
            loops.create_task(self._check_named())
            if self._searched:
                loops.create_task(self._follow_brokers())
                loops.create_task(self._search_tenants())

    # --- the loops ----------------------------------------------------------------------------------------------------

    async def _check_named(self) -> None:
        now, due = asyncio.get_running_loop().time, dict.fromkeys(sorted(self._exact), 0.0)
        while True:
            for name, at in due.items():
                if name not in self.found or now() >= at:
                    await self._check_log(name)
                    due[name] = now() + _AGAIN_SECONDS
            await asyncio.sleep(_SOON_SECONDS)

    async def _follow_brokers(self) -> None:
        while True:
            try:
                await self._follow_loaded()
            except LogError as error:
                self._loaded = None
                refused = error.state is LogState.ADMIN_REFUSED
                if not refused:
                    self._warn(error)
                elif not self._refusal_told:
                    self._refusal_told = True
                    sentence = (
                        "Brokers show what they have loaded only to superusers, so the guard lists the namespaces of tenants instead: %s"
                    )
                    _LOG.info(sentence, error.message)
                await asyncio.sleep(_RARELY_SECONDS if refused else _AGAIN_SECONDS)

    @understood
    async def _follow_loaded(self) -> None:
        now = asyncio.get_running_loop().time
        cluster = str((await self._ask("brokers", "configuration", "runtime"))["clusterName"])
        while True:
            brokers = await self._listed("brokers", cluster, least=1)
            until = now() + _AGAIN_SECONDS
            while now() < until:
                loaded: set[str] = set()
                for broker in sorted(brokers):
                    bundles = await self._ask("brokers", cluster, broker, "ownedNamespaces")
                    names = {bundle.rpartition("/")[0] for bundle in bundles.keys()}  # noqa: SIM118 - a list is no answer
                    # A broker's own namespace is called like the broker.
                    loaded |= {name for name in names if self._matching.fullmatch(name) and name.partition("/")[2] not in brokers}
                    self._note(self.found | loaded)
                before, self._loaded = self._loaded or frozenset(), frozenset(loaded)
                for name in sorted(before - loaded):  # another broker has it, or none, or it was deleted
                    await self._check_log(name)
                await asyncio.sleep(_SOON_SECONDS)

    async def _search_tenants(self) -> None:
        now, list_at = asyncio.get_running_loop().time, 0.0
        named = tenants = frozenset(name for name in self._named if "*" not in name)
        while True:
            began = now()
            if named != self._named and began >= list_at:
                try:
                    listed = await self._listed("tenants", least=1)
                    tenants = named | {name for name in listed if self._tenants_matching.fullmatch(name)}
                    self._lose(name for name in self.found if _tenant_of(name) not in tenants)
                except LogError as error:
                    self._warn(error)
                    if error.state is LogState.ADMIN_REFUSED:
                        list_at = began + _RARELY_SECONDS
            for tenant in sorted(tenants):
                await self._search(tenant)
            while now() < began + (_SOON_SECONDS if self._loaded is None else _RARELY_SECONDS):  # noqa: ASYNC110 (it is time that passes)
                await asyncio.sleep(_SOON_SECONDS)

    async def _search(self, tenant: str) -> None:
        try:
            listed = await self._listed("namespaces", tenant)
        except LogError as error:
            self._warn(error)
            return
        self._lose(name for name in self.found if _tenant_of(name) == tenant and name not in listed)
        for name in sorted(filter(self._matching.fullmatch, listed - self.found)):
            await self._check_log(name)

    # --- questions and answers ----------------------------------------------------------------------------------------

    async def _check_log(self, name: str) -> None:
        """Finds out whether a namespace has a change log. If there is no answer, nothing changes."""
        try:
            self._note(self.found | {name} if await self._has_log(name) else self.found - {name})
        except LogError as error:
            self._warn(error)

    @understood
    async def _has_log(self, namespace: str) -> bool:
        answer = await self._ask("persistent", *namespace.split("/"), CHANGE_EVENTS, "partitions")
        return answer is not None and int(answer["partitions"]) >= 0

    @understood
    async def _listed(self, *path: str, least: int = 0) -> frozenset[str]:
        names = frozenset(names_of(await self._ask(*path)))
        if len(names) < least:
            raise ValueError("an empty list")
        return names

    async def _ask(self, *path: str) -> Any:
        """Asks brokers a question in its turn; returns the answer, as its JSON; None for "not found".

        Raises:
            LogError: there is no answer.
        """
        now = asyncio.get_running_loop().time
        async with self._turn:
            await asyncio.sleep(self._next - now())
            began = now()
            try:
                return await self._admin.get(*path, seconds=_TRYING_SECONDS)
            finally:
                took = now() - began
                self._next = now() + max(_LEAST_SECONDS - took, min(_REST_FACTOR * took, _LONGEST_REST_SECONDS))

    def _lose(self, unlisted: Iterable[str]) -> None:
        """Notes that namespaces are gone, unless other questions are asked about them."""
        self._note(self.found - set(unlisted).difference(self._exact, self._loaded or ()))

    def _note(self, found: frozenset[str]) -> None:
        if found != self.found:
            self.found = found
            self.changed.set()

    def _warn(self, error: LogError) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._warned_at >= _RARELY_SECONDS:
            self._warned_at = now
            _LOG.warning("the namespaces to guard can't be listed, so the present %d stay: %s", len(self.found), error.message)


def _tenant_of(namespace: str) -> str:
    return namespace.partition("/")[0]


def tell_of_healing(repair: Repair, published: bool) -> None:
    """Logs a repair that was published, or would have been if anything might be written.

    One line has the document before and after, and the event that caused the repair. A repair may change no setting: if an event that
    changed nothing stands behind the head's own event in the log, brokers show the right document, but a reader that knows nothing but this
    newest event would take the document for another version. Then the version and its requests are what is repaired.
    """
    verb = "healed" if published else "would heal"
    name = f"{repair.key.topic} ({repair.key.scope.name})"
    cause = "it was so when the log was opened" if repair.cause is None else f"because of {event_in_words(repair.cause)}"
    what = difference(repair.raw, repair.after)
    if repair.raw == repair.after:
        what = f"no setting, but the log's newest event does not name version {repair.version} with all its requests"
    _LOG.info("%s %s: %s; %s", verb, name, what, cause)
