"""All namespaces of a server: loaded on first use, and dropped when nothing has used them for a while, or where there is no room."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import OrderedDict
from collections.abc import Callable
from itertools import islice

from ..checkpoints import Checkpoints
from ..config import Limits
from ..core.errors import PolicyError, stopping, too_much
from ..core.fold.fold import FoldContext
from ..history import History
from ..logs.change_log import ChangeLogs
from ..readiness import Readiness
from ..tasks import RestartedTask, TaskSet
from .common import Common
from .namespace import Namespace
from .repairs import RepairQueue

_LOG = logging.getLogger(__name__)
_SWEEP_SECONDS = 1.0
_LOADS = 8
"""How many namespaces are loaded at the same time; the others wait. One that makes no progress leaves its place to another."""
_READ_SECONDS = 10.0
"""How long a checkpoint waits until the log's reader has read the events that were taken by proof."""
_LOOKED_AT = 256
"""At how many namespaces it is looked when one is to be closed: there may be ten thousand, and each new one may close another."""


class Registry:
    """The namespaces that are in memory."""

    def __init__(  # noqa: PLR0913 - what a server is configured with
        self,
        log: ChangeLogs,
        limits: Limits,
        context: FoldContext,
        *,
        read_only: bool = False,
        pause_repairs: bool = False,
        history: History | None = None,
        readiness: Readiness | None = None,
        checkpoints: Checkpoints | None = None,
        seed: int | None = None,
        now: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """Begins without any namespace.

        ``read_only``: updates are refused, and repairs only reported. ``pause_repairs``: repairs wait from the beginning until
        ``repairs.resume``. ``readiness``: callers are refused while the log is known to be out of reach; None: it never is. ``now``:
        milliseconds since 1970, by a clock like the logs'.
        """
        self._limits = limits
        self._chance = random.Random(seed)
        self.repairs = RepairQueue(asyncio.get_running_loop(), limits.max_repairs_per_second, paused=pause_repairs)
        """The repairs of all namespaces, at a bounded rate."""
        self.common = Common(
            log,
            limits,
            context,
            slots=asyncio.Semaphore(_LOADS),
            now=now,
            evict=self._evict,
            read_only=read_only,
            history=history,
            readiness=readiness or Readiness(0.0, known=True),
            checkpoints=checkpoints,
        )
        self.common.readiness.add_listener(self._reach_changed)
        self._namespaces: OrderedDict[str, Namespace] = OrderedDict()
        """By name; the one that was asked for last is the last one."""
        self._closing: dict[str, asyncio.Task[None]] = {}
        self._closings = TaskSet("namespaces")
        self._ended: PolicyError | None = None
        self._sweeper = RestartedTask("dropping idle namespaces", self._sweep)
        self._sweeper.start()
        self._saver = RestartedTask("writing checkpoints", self._save)
        if checkpoints is not None:
            self._saver.start()

    def __len__(self) -> int:
        return len(self._namespaces)

    def namespaces(self) -> list[Namespace]:
        """Returns the namespaces in memory."""
        return list(self._namespaces.values())

    def get(self, name: str) -> Namespace:
        """Returns the namespace, which may still be loading.

        Raises:
            PolicyError: the server is stopping (UNAVAILABLE) or holds too many namespaces that are used (RESOURCE_EXHAUSTED).
        """
        namespace = self._namespaces.get(name)
        if namespace is not None:
            self._namespaces.move_to_end(name)
            return namespace
        if self._ended is not None:
            raise self._ended
        most = self._limits.max_loaded_namespaces
        if len(self._namespaces) >= most and not self._evict():
            raise too_much(
                "max_loaded_namespaces",
                most,
                f"{len(self._namespaces)} namespaces are loaded and in use, which is the limit: use another server, or raise"
                " max_loaded_namespaces of this one.",
            )
        chance = random.Random(self._chance.getrandbits(64))
        namespace = Namespace(name, self.common, self.repairs, chance, dismiss=self._dismiss, predecessor=self._closing.get(name))
        self._namespaces[name] = namespace
        return namespace

    def find(self, name: str) -> Namespace | None:
        """Returns the namespace if it is in memory."""
        return self._namespaces.get(name)

    async def close(self) -> None:
        """Closes all namespaces; what their logs have accepted is finished. Other requests, and later callers, get an error."""
        if self._ended is None:
            self._ended = stopping()
        await self._sweeper.stop()
        await self._saver.stop()
        self.repairs.close()
        for namespace in list(self._namespaces.values()):
            self._drop(namespace, self._ended)
        await self._closings.close(cancel=False)

    async def save(self) -> None:
        """Writes a checkpoint of each namespace that changed enough since its last one."""
        if (checkpoints := self.common.checkpoints) is not None:
            for namespace in self.namespaces():
                await namespace.save(max(checkpoints.pace.events, checkpoints.pace.share * namespace.documents), _READ_SECONDS)

    async def _save(self) -> None:
        while self.common.checkpoints is not None:
            await asyncio.sleep(self.common.checkpoints.pace.seconds)
            await self.save()

    def _reach_changed(self) -> None:
        error = self.common.readiness.refuses_waiting()
        if error is not None:
            for namespace in self.namespaces():
                namespace.cut_off(error)

    def _dismiss(self, namespace: Namespace) -> bool:
        """Closes a namespace, unless it is in use. Returns whether it does."""
        if self._namespaces.get(namespace.name) is not namespace or namespace.busy:
            return False
        self._drop(namespace)
        return True

    def _evict(self, spared: str = "") -> bool:
        """Closes an idle namespace, that which was asked for the longest time ago, except the spared one. Returns False if none is idle.

        Where more than ``_LOOKED_AT`` are in use, one that falls idle may be overlooked for a while.
        """
        for name in list(islice(self._namespaces, _LOOKED_AT)):
            namespace = self._namespaces[name]
            if name != spared and not namespace.busy:
                self._drop(namespace)
                return True
            self._namespaces.move_to_end(name)
        return False

    def _drop(self, namespace: Namespace, error: PolicyError | None = None) -> None:
        name = namespace.name
        del self._namespaces[name]
        namespace.forget()
        task = self._closings.begin(namespace.close(error), f"closing {name}")
        self._closing[name] = task
        task.add_done_callback(lambda _: self._forget(name, task))

    def _forget(self, name: str, task: asyncio.Task[None]) -> None:
        if self._closing.get(name) is task:
            del self._closing[name]

    async def _sweep(self) -> None:
        loop, idle, over = asyncio.get_running_loop(), self._limits.namespace_idle_seconds, False
        looked_at = loop.time()
        while True:
            await asyncio.sleep(min(_SWEEP_SECONDS, idle / 4))
            was_over, over = over, self.common.over_capacity
            if over and not was_over:
                _LOG.warning(
                    "more is in memory than max_loaded_document_bytes, and nothing of it is idle (%s bytes). Loaded namespaces are still"
                    " served, with what others write; other namespaces, and updates that would make a policy key, are refused until there"
                    " is room",
                    f"{self.common.bytes:,}",
                )
            if loop.time() - looked_at < idle / 4:
                continue
            looked_at = loop.time()
            for namespace in list(self._namespaces.values()):
                if not namespace.busy and looked_at - namespace.idle_since() > idle:
                    self._dismiss(namespace)
