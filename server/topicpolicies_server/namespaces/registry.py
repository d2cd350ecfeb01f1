"""All namespaces of a server: loaded on first use, once however many ask, and dropped when idle (PIP-39's lazy eviction)."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable

from ..config import Limits
from ..core.errors import Kind, PolicyError
from ..core.fold.fold import FoldContext
from ..core.reasons import Reason
from ..history import History
from ..logs.change_log import ChangeLog
from .activity import Activity
from .gate import Gate
from .namespace import Namespace


class Registry:
    """The namespaces that are in memory."""

    def __init__(
        self,
        log: ChangeLog,
        limits: Limits,
        context: FoldContext,
        *,
        read_only: bool = False,
        pause_repairs: bool = False,
        history: History | None = None,
        seed: int | None = None,
        now: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """Begins without any namespace.

        Args:
            log: where change logs are opened.
            limits: every bound.
            context: what the fold needs to know of the logs.
            read_only: whether nothing may be written: updates are refused, repairs only told of.
            pause_repairs: whether repairs wait from the beginning until ``gate.resume``.
            history: where everything that is folded is written down; None: nowhere.
            seed: of the random choices; None: a different one each time.
            now: milliseconds since 1970, by a clock like the logs'.
        """
        self._log = log
        self._limits = limits
        self._context = context
        self._chance = random.Random(seed)
        self.now = now
        """Milliseconds since 1970, by a clock like the logs'."""
        self._read_only = read_only
        self.history = history
        """Where everything that is folded is written down."""
        self.activity = Activity()
        """What happened in the namespaces."""
        self.gate = Gate(asyncio.get_running_loop(), limits.max_repairs_per_second, paused=pause_repairs)
        """What every repair passes."""
        self._slots = asyncio.Semaphore(limits.max_concurrent_loads)
        self._namespaces: dict[str, Namespace] = {}
        self._closing: dict[str, asyncio.Task[None]] = {}
        self._closed = False
        self._sweeper = asyncio.get_running_loop().create_task(self._sweep(), name="idle namespaces")

    def __len__(self) -> int:
        return len(self._namespaces)

    def namespaces(self) -> list[Namespace]:
        """Those in memory."""
        return list(self._namespaces.values())

    def get(self, name: str) -> Namespace:
        """The namespace, which may still be loading.

        Raises:
            PolicyError: the server is stopping (UNAVAILABLE) or holds too many namespaces (RESOURCE_EXHAUSTED).
        """
        namespace = self._namespaces.get(name)
        if namespace is not None:
            return namespace
        if self._closed:
            raise PolicyError(Kind.UNAVAILABLE, Reason.SHUTTING_DOWN, "The server is stopping: try another, or this one later.")
        if len(self._namespaces) >= self._limits.max_loaded_namespaces:
            raise PolicyError(
                Kind.RESOURCE_EXHAUSTED,
                Reason.TOO_MANY_NAMESPACES,
                f"{len(self._namespaces)} namespaces are loaded, which is the most: wait until idle ones are dropped, or raise the limit.",
            )
        namespace = Namespace(
            name,
            self._log,
            self._limits,
            self._context,
            slots=self._slots,
            chance=random.Random(self._chance.getrandbits(64)),
            now=self.now,
            gate=self.gate,
            activity=self.activity,
            read_only=self._read_only,
            dismiss=self._drop,
            predecessor=self._closing.get(name),
            record=self.history.scribe if self.history is not None else None,
        )
        self._namespaces[name] = namespace
        return namespace

    async def close(self) -> None:
        """Closes all namespaces; what their logs have accepted is finished."""
        self._closed = True
        self._sweeper.cancel()
        self.gate.close()
        for namespace in list(self._namespaces.values()):
            self._drop(namespace)
        await asyncio.gather(*self._closing.values(), self._sweeper, return_exceptions=True)

    def _drop(self, namespace: Namespace) -> bool:
        """Closes a namespace, unless it is needed. Returns whether it does."""
        if self._namespaces.get(namespace.name) is not namespace or (namespace.busy and not self._closed):
            return False
        del self._namespaces[namespace.name]
        task = asyncio.get_running_loop().create_task(namespace.close())
        self._closing[namespace.name] = task
        task.add_done_callback(lambda _: self._forget(namespace.name, task))
        return True

    def _forget(self, name: str, task: asyncio.Task[None]) -> None:
        if self._closing.get(name) is task:
            del self._closing[name]

    async def _sweep(self) -> None:
        idle = self._limits.namespace_idle_seconds
        while True:
            await asyncio.sleep(idle / 4)
            now = asyncio.get_running_loop().time()
            for namespace in list(self._namespaces.values()):
                if not namespace.busy and now - namespace.idle_since() > idle:
                    self._drop(namespace)
