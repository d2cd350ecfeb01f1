"""The permissions that open watches depend on, checked every second as long as the watches are open.

- While the caller has all permissions that the watch needs in a namespace, its part sends what is watched.
- If it lacks one, the part sends the status FAILED with ``PERMISSION_DENIED``; the stream ends if it is so in all of its namespaces.
- If there was no answer in time, the part sends the status FAILED with ``AUTHORIZATION_UNKNOWN``.

Records that were taken while the caller was permitted, but could not be written because the client did not read, are not sent once that has
changed: the stream ends. It ends with ``AUTHORIZATION_UNKNOWN`` if only the permission to see secrets has changed. When a namespace is
permitted again, its part goes on where it stood. The client keeps what it has: a status is no ``reset``.

How long a watch may go on after its permission was withdrawn: until that is noticed (a file: ``files.LOOK_SECONDS``; brokers:
``authorization_cache_seconds``), plus ``LOOK_SECONDS`` and ``ASK_SECONDS``.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

from ...access import Caller, Granted, Permission
from ...access.grants import Grants, known
from ...core.errors import Kind, PolicyError
from ...core.reasons import Reason
from ...tasks import RestartedTask, TaskSet
from .. import answers, errors

LOOK_SECONDS = 1.0
"""Seconds between two checks."""
ASK_SECONDS = 3.0
"""Seconds that brokers may take to answer."""
_TURN = 1_000
"""Authorizations that are checked before other tasks have their turns."""


class _Needs(NamedTuple):
    """What is checked once, however many watches depend on it."""

    caller: Caller
    namespace: str
    permissions: tuple[Permission, ...]

    def wire(self, granted: Granted) -> answers.Wire:
        """Returns what serializes documents for the caller. Raises PERMISSION_DENIED if it lacks a permission."""
        return answers.permitted(granted, self.caller, self.namespace, *self.permissions)


class Authorization:
    """What is known of one caller's permissions in one namespace."""

    def __init__(self, wire: answers.Wire) -> None:
        """The caller is permitted. ``wire``: serializes documents for it, with or without secrets."""
        self.refusal: PolicyError | None = None
        """Why the caller may not watch the namespace now; None: it may."""
        self.wire = wire
        """Serializes documents for the caller, with or without secrets."""
        self.wakes: dict[object, Callable[[], None]] = {}
        """What notifies the watches that depend on this authorization, by watch."""
        self.asked = False
        """Whether an answer about the caller's permissions is awaited."""

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

    def learn(self, refusal: PolicyError | None, wire: answers.Wire) -> None:
        """Takes the result of a check, and notifies the watches if it has changed or is a refusal.

        They are notified of a refusal each time, because a stream whose client does not read has to be cancelled later
        (``WatchStream.reconsider``).
        """
        if refusal is not None and self.refusal is not None and refusal.reason is self.refusal.reason:
            refusal = self.refusal
        changed = refusal is not self.refusal or wire is not self.wire
        self.refusal, self.wire = refusal, wire
        if changed or refusal is not None:
            for wake in list(self.wakes.values()):
                wake()


class Authorizations:
    """The authorizations of all open watches, and the task that checks them. It belongs to one event loop."""

    def __init__(self, grants: Grants) -> None:
        """``grants``: says what callers may do."""
        self._grants = grants
        self._authorizations: dict[_Needs, Authorization] = {}
        self._checking = RestartedTask("checking the permissions of watches", self._check_all)

    def __len__(self) -> int:
        return len(self._authorizations)

    @contextlib.asynccontextmanager
    async def joined(
        self, wake: Callable[[], None], caller: Caller, namespaces: Sequence[str], *permissions: Permission
    ) -> AsyncIterator[Mapping[str, Authorization]]:
        """Holds a caller's authorizations for namespaces while a watch is open, and gives them by namespace. Unused ones are dropped.

        Args:
            wake: called when an authorization has changed, and at each check while the caller is not permitted.
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
                wires = await asyncio.gather(*map(self._wire, some))
                for needs, wire in zip(some, wires, strict=True):
                    found[needs] = authorization = self._authorizations.setdefault(needs, Authorization(wire))
                    authorization.learn(None, wire)
                    authorization.wakes[watcher] = wake
                self._checking.start()  # also checks these while the others are asked for
            yield {needs.namespace: authorization for needs, authorization in found.items()}
        finally:
            for needs, authorization in found.items():
                del authorization.wakes[watcher]
                if not authorization.wakes:
                    del self._authorizations[needs]
            if not self._authorizations:
                self._checking.cancel()

    async def _wire(self, needs: _Needs) -> answers.Wire:
        return needs.wire(await known(self._grants(needs.caller, needs.namespace)))

    async def _check_all(self) -> None:
        asking = TaskSet("the permissions of watches")
        try:
            while True:
                await asyncio.sleep(LOOK_SECONDS)
                for number, (needs, authorization) in enumerate(list(self._authorizations.items()), 1):
                    if not authorization.asked:
                        self._check(needs, authorization, asking)
                    if not number % _TURN:
                        await asyncio.sleep(0)
        finally:
            await asking.close()

    def _check(self, needs: _Needs, authorization: Authorization, asking: TaskSet) -> None:
        try:
            granted = self._grants(needs.caller, needs.namespace)
            if isinstance(granted, frozenset):
                authorization.learn(None, needs.wire(granted))
            else:
                authorization.asked = True
                asking.begin(_ask(needs, authorization, granted), needs.namespace)
        except Exception as error:  # noqa: BLE001 (it becomes a refusal)
            authorization.learn(_refusal(needs, error), authorization.wire)


async def _ask(needs: _Needs, authorization: Authorization, granted: Awaitable[Granted]) -> None:
    try:
        async with asyncio.timeout(ASK_SECONDS):
            authorization.learn(None, needs.wire(await granted))
    except Exception as error:  # noqa: BLE001 (it becomes a refusal)
        authorization.learn(_refusal(needs, error), authorization.wire)
    finally:
        authorization.asked = False


def _refusal(needs: _Needs, error: Exception) -> PolicyError:
    """Returns why a caller may not watch a namespace after a check has failed."""
    if isinstance(error, PolicyError):
        return error
    if isinstance(error, TimeoutError):
        return _unknown(f"The caller's permissions in {needs.namespace} were not known within {ASK_SECONDS:g} s: they are requested again.")
    errors.log_failure("A check of a watch's permissions", error)
    return _unknown(f"The caller's permissions in {needs.namespace} can't be determined; this server's log has the reason.")


def _unknown(problem: str) -> PolicyError:
    return PolicyError(Kind.UNAVAILABLE, Reason.AUTHORIZATION_UNKNOWN, problem)
