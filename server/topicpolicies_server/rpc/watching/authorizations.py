"""The permissions that open watches depend on, rechecked as long as the watches are open.

An *authorization* is what is known of one caller's permissions in one namespace. All watches of the caller that need the same permissions
there share it. The verdict decides what a part sends:

========  ===============================================  ==========================  ======================================
verdict   what is known of the caller in the namespace     what the part sends         and the stream
========  ===============================================  ==========================  ======================================
allowed   it has all permissions that the watch needs      what is watched             goes on
denied    it lacks one of them                             status FAILED, with         ends with ``PERMISSION_DENIED`` if all
                                                           ``PERMISSION_DENIED``       of its namespaces are denied
unknown   it could not be found out in time                status FAILED, with         goes on
                                                           ``AUTHORIZATION_UNKNOWN``
========  ===============================================  ==========================  ======================================

Records that were taken while the verdict was allowed, but could not be written because the client did not read, are not sent once it has
changed: the stream ends with the new verdict. It ends with ``AUTHORIZATION_UNKNOWN`` if only the permission to see secrets has changed.

When a namespace is allowed again, its part goes on where it stood. The client keeps what it has: a status is no ``reset``.

How long a watch may go on after its permission was withdrawn: until that is noticed (a file: ``reloading.LOOK_SECONDS``; brokers:
``authorization_cache_seconds``), plus ``LOOK_SECONDS`` and ``ASK_SECONDS``.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

from ...access import Caller, Granted, Permission
from ...access.grants import Grants
from ...core.errors import Kind, PolicyError
from ...core.reasons import Reason
from ...tasks import RestartedTask, TaskSet
from .. import answers
from ..permitting import permitted

LOOK_SECONDS = 1.0
"""Seconds between two checks of each authorization."""
ASK_SECONDS = 3.0
"""Seconds that brokers may take to answer; after that the verdict is unknown."""
_TURN = 1_000
"""Authorizations that are checked before other tasks have their turns."""


class _Needs(NamedTuple):
    """The key of an authorization: what is checked once, however many watches depend on it."""

    caller: Caller
    namespace: str
    permissions: tuple[Permission, ...]


class Authorization:
    """What is known of one caller's permissions in one namespace."""

    def __init__(self, wire: answers.Wire) -> None:
        """Begins as allowed. ``wire``: serializes documents for the caller, with or without secrets."""
        self.refusal: PolicyError | None = None
        """Why the caller may not watch the namespace now (denied or unknown); None: it may."""
        self.wire = wire
        """Serializes documents for the caller, with or without secrets."""
        self.wakes: dict[object, Callable[[], None]] = {}
        """What notifies the watches that depend on this authorization, by watch."""

    def check(self, name: str, wire: answers.Wire) -> None:
        """Checks that records which were serialized with ``wire`` may still be sent.

        Raises:
            PolicyError: the caller may not watch the namespace any more, or its documents are shown to it in another way by now.
        """
        if self.refusal is not None:
            raise self.refusal
        if self.wire is not wire:
            raise _unknown(
                f"The caller's permission to see secrets in {name} changed while this watch was not read: resume with its token."
            )


class Authorizations:
    """The authorizations of all open watches, and the task that rechecks them. It belongs to one event loop."""

    def __init__(self, grants: Grants) -> None:
        """``grants``: says what callers may do."""
        self._grants = grants
        self._authorizations: dict[_Needs, Authorization] = {}
        self._looking = RestartedTask("checking the permissions of watches", self._look, failed=self._failed)

    def __len__(self) -> int:
        return len(self._authorizations)

    @contextlib.asynccontextmanager
    async def joined(
        self, wake: Callable[[], None], caller: Caller, namespaces: Sequence[str], *permissions: Permission
    ) -> AsyncIterator[Mapping[str, Authorization]]:
        """Holds a caller's authorizations for namespaces while a watch is open, and gives them by namespace. Unused ones are dropped.

        Args:
            wake: called when an authorization has changed, and at each check while it is denied or unknown.
            caller: the caller of the watch.
            namespaces: the namespaces that are watched.
            permissions: the permissions that the watch needs in each of them.

        Raises:
            PolicyError: PERMISSION_DENIED, the caller lacks a permission in one of them; UNAVAILABLE, that can't be known now.
        """
        found: dict[_Needs, Authorization] = {}
        watcher = object()
        try:
            for at in range(0, len(namespaces), _TURN):
                if at:
                    await asyncio.sleep(0)
                some = [_Needs(caller, namespace, permissions) for namespace in namespaces[at : at + _TURN]]
                found_out = [self._grants(caller, needs.namespace) for needs in some]
                asked = iter(await asyncio.gather(*(each for each in found_out if not isinstance(each, frozenset))))
                granted = [each if isinstance(each, frozenset) else next(asked) for each in found_out]
                for needs, wire in [(needs, _wire(each, needs)) for needs, each in zip(some, granted, strict=True)]:
                    found[needs] = authorization = self._authorizations.setdefault(needs, Authorization(wire))
                    _judge(authorization, None, wire)
                    authorization.wakes[watcher] = wake
                self._looking.start()  # also rechecks these while the others are asked for
            yield {needs.namespace: authorization for needs, authorization in found.items()}
        finally:
            for needs, authorization in found.items():
                del authorization.wakes[watcher]
                if not authorization.wakes:
                    del self._authorizations[needs]
            if not self._authorizations:
                self._looking.cancel()

    async def _look(self) -> None:
        asking: dict[_Needs, asyncio.Task[Exception | None]] = {}
        owned = TaskSet("the permissions of watches")
        try:
            while True:
                await asyncio.sleep(LOOK_SECONDS)
                for needs in [needs for needs, task in asking.items() if task.done()]:
                    if (failure := asking.pop(needs).result()) is not None:
                        raise failure
                for number, needs in enumerate(list(self._authorizations), 1):
                    if needs not in asking:  # the loop goes on to others while one is asked for
                        granted = self._grants(needs.caller, needs.namespace)
                        if isinstance(granted, frozenset):
                            self._take(needs, granted)
                        else:
                            asking[needs] = owned.begin(self._ask(needs, granted), needs.namespace)
                    if not number % _TURN:
                        await asyncio.sleep(0)
        finally:
            await owned.close()

    def _take(self, needs: _Needs, granted: Granted) -> None:
        """Judges an authorization by what the caller is granted."""
        try:
            self._judge(needs, None, _wire(granted, needs))
        except PolicyError as error:
            self._judge(needs, error)

    async def _ask(self, needs: _Needs, granted: Awaitable[Granted]) -> Exception | None:
        """Finds out what the caller is granted. Returns an unforeseen error, which the checking task then fails with."""
        try:
            async with asyncio.timeout(ASK_SECONDS):
                self._take(needs, await granted)
        except PolicyError as error:
            self._judge(needs, error)
        except TimeoutError:
            problem = f"The caller's permissions in {needs.namespace} were not known within {ASK_SECONDS:g} s: they are requested again."
            self._judge(needs, _unknown(problem))
        except Exception as error:  # noqa: BLE001 (told)
            return error
        return None

    def _judge(self, needs: _Needs, refusal: PolicyError | None, wire: answers.Wire | None = None) -> None:
        """Sets the verdict of an authorization (``_judge``), unless it was dropped. ``wire``: None keeps the present one."""
        authorization = self._authorizations.get(needs)
        if authorization is not None:
            _judge(authorization, refusal, authorization.wire if wire is None else wire)

    def _failed(self, _: BaseException) -> None:
        """Sets every verdict to unknown, because the checking task has failed: no part sends changes until it runs again."""
        for needs, authorization in self._authorizations.items():
            problem = f"The caller's permissions in {needs.namespace} can't be determined; this server's log has the reason."
            _judge(authorization, _unknown(problem), authorization.wire)


def _wire(granted: Granted, needs: _Needs) -> answers.Wire:
    """Checks what a caller is granted, and returns how documents are serialized for it.

    Raises:
        PolicyError: PERMISSION_DENIED, the caller lacks a permission.
    """
    return permitted(granted, needs.caller, needs.namespace, *needs.permissions)


def _unknown(problem: str) -> PolicyError:
    return PolicyError(Kind.UNAVAILABLE, Reason.AUTHORIZATION_UNKNOWN, problem)


def _judge(authorization: Authorization, refusal: PolicyError | None, wire: answers.Wire) -> None:
    """Sets a verdict, and wakes the watches that depend on it if it has changed or is a refusal.

    A refusal wakes them at each check, because a stream whose client does not read has to be cancelled later (``WatchStream.reconsider``).
    """
    old = authorization.refusal
    same = (old is None) == (refusal is None) and (old is None or refusal is None or old.reason is refusal.reason)
    if not same or wire is not authorization.wire:
        authorization.refusal, authorization.wire = refusal, wire
    elif refusal is None:
        return
    for wake in list(authorization.wakes.values()):
        wake()
