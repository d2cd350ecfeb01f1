"""One sidecar: the service over one process's logs, which can stop, crash and start again."""

from __future__ import annotations

import asyncio
import operator
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar, cast

from tests.guard.told import Told
from tests.memory_log import MemoryLog, MemoryNamespaceLog, MemoryStorage, StoredNamespace
from tests.memory_log.led import LedMemoryLog, LedNamespaceLog
from tests.memory_log.ledgered import LedgeredLog
from tests.memory_log.ledgers import LedgeredStorage
from tests.validators.documents import Document
from tests.validators.records import Failure, Key
from topicpolicies.v1 import policies_pb2, service_pb2
from topicpolicies_server.access.grants import Grants
from topicpolicies_server.checkpoints import Checkpoints
from topicpolicies_server.config import Limits
from topicpolicies_server.core.fold.fold import FoldContext
from topicpolicies_server.core.names import PolicyKey
from topicpolicies_server.core.reading.view import CellsInUse
from topicpolicies_server.core.reasons import Reason
from topicpolicies_server.guard import Guard
from topicpolicies_server.logs.change_log import LogError, LogSink, Start
from topicpolicies_server.namespaces.namespace import Phase
from topicpolicies_server.namespaces.registry import Registry
from topicpolicies_server.rpc import reads
from topicpolicies_server.rpc.calls import Call
from topicpolicies_server.rpc.changes import batch_update_policies, change_policy
from topicpolicies_server.rpc.dependencies import Dependencies
from topicpolicies_server.rpc.requests import ChangeMessage
from topicpolicies_server.rpc.watching.policy_part import watch_policies
from topicpolicies_server.rpc.watching.stream import WatchStreams

from .calls import BROKEN, Refused, call_of, refused
from .faults import SimulatedFaults
from .kept import Disk, SimulatedCheckpoints
from .traffic import flat


class ProcessLog(MemoryLog):
    """Logs that any process may write."""

    dead = False
    openings = 0
    opened_one: Callable[[], None] | None = None
    """Called at each opening, before an entry is read."""

    async def open(self, namespace: str, sink: LogSink, start: Start | None = None) -> MemoryNamespaceLog:
        slow, stalled = self.faults.opening() if isinstance(self.faults, SimulatedFaults) else (0.0, 0.0)
        if slow:
            await asyncio.sleep(slow)
        if self.dead:
            raise LogError(Reason.LOG_UNAVAILABLE, "The process has crashed.")
        log = await super().open(namespace, sink, start)
        self.openings += 1
        if self.opened_one is not None:
            self.opened_one()
        if stalled:
            for channel in log.reads:
                channel.hold()
                asyncio.get_running_loop().call_later(stalled, channel.release)
        return log

    def _opening(self, stored: StoredNamespace, sink: LogSink, start: Start | None) -> MemoryNamespaceLog:
        if self.dead:
            raise LogError(Reason.LOG_UNAVAILABLE, "The process has crashed.")
        return super()._opening(stored, sink, start)

    def crash(self) -> None:
        self.dead = True
        super().crash()

    def has_open(self, namespace: str) -> bool:
        """Whether a namespace's log is open."""
        return namespace in self._open

    def in_flight(self, namespace: str) -> int:
        """Returns the number of appends without an outcome."""
        return self._open[namespace].in_flight if namespace in self._open else 0


class LedgeredProcessLog(ProcessLog, LedgeredLog):
    """Logs that consist of ledgers, which are compacted while they are read."""


class LedProcessLog(ProcessLog, LedMemoryLog):
    """Logs that have one writer at a time."""


T = TypeVar("T")


class Sidecar:
    """A simulated process. All its tasks end with it."""

    def __init__(
        self,
        name: str,
        storage: MemoryStorage,
        limits: Limits,
        context: FoldContext,
        make_faults: Callable[[], SimulatedFaults],
        chance: random.Random,
        counts: Counter[str],
        guards: Sequence[str] = (),
        *,
        exclusive: bool = False,
        checkpoints: bool = False,
        opened: Callable[[], None] | None = None,
    ) -> None:
        self.name = name
        self._opened = opened
        self.running = False
        self._storage = storage
        self._limits = limits
        self._context = context
        self._make_faults = make_faults
        self._chance = chance
        self._counts = counts
        self._guards = guards
        self._exclusive = exclusive
        self._disk = Disk() if checkpoints else None
        self._kept: SimulatedCheckpoints | None = None
        self._awake = asyncio.Event()
        self._awake.set()
        self._guard: Guard | None = None
        self._calls: dict[asyncio.Task[Any], None] = {}
        self._starts = 0

    def start(self, *, paused: bool = False) -> None:
        """Starts to serve; ``paused``: its repairs wait until ``resume_repairs``."""
        assert not self.running
        self._starts += 1
        self.faults = self._make_faults()
        producer = f"{self.name}-{self._starts}"
        if self._exclusive:
            self.log: ProcessLog = LedProcessLog(self._storage, address=self.name, faults=self.faults, producer=producer, close_seconds=1.0)
        elif isinstance(self._storage, LedgeredStorage):
            self.log = LedgeredProcessLog(self._storage, counts=self._counts, faults=self.faults, producer=producer, close_seconds=1.0)
        else:
            self.log = ProcessLog(self._storage, faults=self.faults, producer=producer, close_seconds=1.0)
        self.log.opened_one = self._opened
        self.registry = Registry(
            self.log, self._limits, self._context, pause_repairs=paused, seed=self._chance.getrandbits(32), now=self._storage.now
        )
        self.registry.common.in_use = CellsInUse(2)  # so that most keys rest between their events
        if self._disk is not None:
            self._kept = SimulatedCheckpoints(self.registry, self._disk, random.Random(self._starts), self._counts)
            self.registry.common.checkpoints = cast("Checkpoints", self._kept)
        grants = Grants(None)
        watches = WatchStreams(self._limits.max_watches, grants)
        self._dependencies = Dependencies(registry=self.registry, limits=self._limits, grants=grants, watches=watches)
        if self._guards:
            self._guard = Told(self.registry, *self._guards)
            self._guard.start()
        self._down: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.running = True

    @property
    def ready(self) -> bool:
        """Whether it runs and has loaded a namespace."""
        return self.running and any(namespace.phase is Phase.READY for namespace in self.registry.namespaces())

    @property
    def in_flight(self) -> int:
        """The number of appends that the log has not answered."""
        return sum(self.log.in_flight(name) for name in self._storage.namespaces())

    @property
    def repairs_due(self) -> int:
        """The number of keys with a repair due."""
        return sum(namespace.repairs_due for namespace in self.registry.namespaces()) if self.running else 0

    @property
    def held_up_by_rate(self) -> bool:
        """Whether repairs wait for the rate limit only."""
        return self.running and self.registry.repairs.waiting > 0 and not self.registry.repairs.paused

    def pause_repairs(self) -> None:
        """Pauses its repairs."""
        self.registry.repairs.pause()

    def resume_repairs(self) -> None:
        """Resumes its repairs."""
        if self.running:
            self.registry.repairs.resume()

    def knows(self, key: PolicyKey) -> bool:
        """Whether it has seen every event that the log ever had of a key."""
        namespaces = self.registry.namespaces() if self.running else []
        for follower in (each for namespace in namespaces for each in (namespace.reading, namespace.served)):
            if follower is not None and follower.log is not None:
                state = follower.view.state(key)
                if follower.log.complete_after(follower.log.partition_of(key)) == "" if state is None else state.since == "":
                    return True
        return False

    def has_read_what_is_compacted(self, namespace: str) -> bool:
        """Whether it serves a namespace and has read everything up to the last compaction."""
        follower = next((each.served for each in self.registry.namespaces() if each.name == namespace), None) if self.ready else None
        compacted = self._storage.namespace(namespace).compacted
        return follower is not None and all(end <= here for end, here in zip(compacted, follower.positions, strict=True))

    def may_write_what_is_older(self, namespace: str, positions: Sequence[str]) -> bool:
        """Whether an event may yet come from it whose writer had not read what stands at these positions, one for each partition."""
        if not self.running:
            return False
        open_here = [each for each in self.registry.namespaces() if each.name == namespace]
        open_ones = [each.positions for one in open_here for each in (one.served, one.reading) if each is not None and each.positions]
        return any(any(map(operator.lt, found, positions)) for found in open_ones) or self.in_flight > 0

    def led_log(self, namespace: str) -> LedNamespaceLog | None:
        """Returns a namespace's log with one writer at a time, if it is open here."""
        log = self.log.opened(namespace) if self.running and self.log.has_open(namespace) else None
        return log if isinstance(log, LedNamespaceLog) else None

    def leads(self, namespace: str) -> bool:
        """Whether it believes it leads."""
        log = self.led_log(namespace)
        return log is not None and log.leadership.leads

    def suspend(self) -> None:
        """Holds up its calls and answers until ``resume``."""
        self._awake.clear()

    def resume(self) -> None:
        """Ends ``suspend``."""
        self._awake.set()

    async def until_awake(self) -> None:
        """Waits until it is not suspended, or has ended."""
        if not self._awake.is_set():
            waking = asyncio.ensure_future(self._awake.wait())
            await asyncio.wait((waking, self._down), return_when=asyncio.FIRST_COMPLETED)
            waking.cancel()

    async def crash(self) -> None:
        """Stops at once. Appends that have not reached the storage are lost, and open calls get no answer."""
        due = self.repairs_due
        self.running = False
        self._counts["crashes"] += 1
        if self.in_flight:
            self._counts["crashes with updates in flight"] += 1
        self._count()
        if due:
            self._counts["crashes with repairs due"] += 1
        self.log.crash()
        self._end_checkpoints()
        self._down.set_result(None)
        for call in list(self._calls):
            call.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)
        await self._let_go()
        await self.registry.close()

    async def stop(self) -> None:
        """Stops gracefully: finishes the calls that it accepted, as far as there is time."""
        self.running = False
        self._dependencies.watches.stop()
        if self._calls:
            await asyncio.wait(list(self._calls), timeout=self._limits.drain_seconds)
        self._down.set_result(None)
        for call in list(self._calls):
            call.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)
        self._count()
        await self._let_go()
        await self.registry.close()
        await self.log.close()
        self._end_checkpoints()

    def _end_checkpoints(self) -> None:
        if self._kept is not None:
            self._kept.end()

    def _count(self) -> None:
        self._counts["logs opened again in one life"] += max(0, self.log.openings - 1)
        self._counts["repairs published"] += self.registry.common.activity.repairs["published"]
        for outcome, count in self.registry.common.activity.confirmations.items():
            self._counts[f"answers that write nothing {outcome}"] += count
        self._counts["repairs cancelled"] += self.registry.common.activity.repairs["cancelled"]

    async def _let_go(self) -> None:
        guard, self._guard = self._guard, None
        if guard is not None:
            await guard.stop()

    async def change(self, message: ChangeMessage) -> service_pb2.ChangeResult:
        """UpdatePolicy or DeletePolicy."""
        answer = await self._call(lambda: change_policy(self._dependencies, message, call_of()))
        return service_pb2.ChangeResult.FromString(answer)

    async def read(self, key: Key, at_least: str = "") -> tuple[str, Document | None]:
        """GetPolicy of one document: returns its version and the document."""
        scope = policies_pb2.Scope.ValueType(key.scope)
        message = service_pb2.GetPolicyRequest(topic=key.topic, scope=scope, at_least_version=at_least)
        answer = await self._call(lambda: reads.get_policy(self._dependencies, message, call_of()))
        document = policies_pb2.PolicyDocument.FromString(answer)
        return document.version, flat(document.policies) if document.HasField("policies") else None

    async def batch(self, message: service_pb2.BatchUpdatePoliciesRequest) -> service_pb2.BatchUpdatePoliciesResponse:
        """BatchUpdatePolicies."""
        answer = await self._call(lambda: batch_update_policies(self._dependencies, message, call_of()))
        return service_pb2.BatchUpdatePoliciesResponse.FromString(answer)

    def watch(self, message: service_pb2.WatchPoliciesRequest, buffer: int) -> Stream:
        """WatchPolicies."""
        return Stream(self, lambda call: watch_policies(self._dependencies, message, call), buffer)

    async def _call(self, method: Callable[[], Awaitable[T]]) -> T:
        """Makes one call, which ends with the process at the latest."""
        if not self.running:
            raise Refused(BROKEN)
        task = self.spawn(self._when_awake(method))
        try:
            await asyncio.wait((task, self._down), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            _leave(task)
            raise
        if not task.done() or task.cancelled():
            _leave(task)
            raise Refused(BROKEN)
        return task.result()

    async def _when_awake(self, method: Callable[[], Awaitable[T]]) -> T:
        """Runs a call; while the process is suspended, the call neither begins nor answers."""
        await self.until_awake()
        try:
            return await method()
        except Exception as error:  # noqa: BLE001 (as the server does)
            raise refused(error) from None
        finally:
            await self.until_awake()

    def spawn(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Starts a task that ends with this process."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._calls[task] = None
        task.add_done_callback(self._calls.pop)
        return task

    @property
    def down(self) -> asyncio.Future[None]:
        """Done when the process has ended."""
        return self._down


class Stream:
    """The answers of a streaming call, in a buffer that fills up when the client does not read."""

    def __init__(self, sidecar: Sidecar, method: Callable[[Call], Awaitable[None]], buffer: int) -> None:
        if not sidecar.running:
            raise Refused(BROKEN)
        self._answers: asyncio.Queue[bytes | Failure | None] = asyncio.Queue(buffer)
        self._pump = sidecar.spawn(self._carry(method, sidecar))
        self._down = sidecar.down

    async def next(self) -> bytes | None:
        """Returns the next answer; None at the end.

        Raises:
            Refused: the service ended the call with an error, or the connection broke and every answer before that was read.
        """
        getting = asyncio.ensure_future(self._answers.get())
        try:
            await asyncio.wait((getting, self._down), return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not getting.done():
                getting.cancel()
        if not getting.done():
            raise Refused(BROKEN)
        answer = getting.result()
        if isinstance(answer, Failure):
            raise Refused(answer)
        return answer

    async def cancel(self) -> None:
        """Cancels the call."""
        self._pump.cancel()
        await asyncio.gather(self._pump, return_exceptions=True)

    async def _carry(self, method: Callable[[Call], Awaitable[None]], sidecar: Sidecar) -> None:
        async def write(answer: bytes) -> None:
            await sidecar.until_awake()
            await self._answers.put(answer)

        try:
            await method(call_of(write=write))
            await self._answers.put(None)
        except Exception as error:  # noqa: BLE001 (as the server does)
            await self._answers.put(refused(error).failure)


def _leave(task: asyncio.Task[Any]) -> None:
    """Cancels a call and ignores its answer and its error."""
    task.cancel()
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
