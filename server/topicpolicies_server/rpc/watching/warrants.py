"""What open watches need to go on: the permissions of their callers, which are looked at again and again.

========  ===============================================  ==========================  ======================================
verdict   what is known of the caller in the namespace     what is told of it          and the stream
========  ===============================================  ==========================  ======================================
allowed   all permissions that the watch needs are his     what is watched             goes on
denied    one of them is not                               status FAILED, with         ends with ``PERMISSION_DENIED`` if all
                                                           ``PERMISSION_DENIED``       of its namespaces are denied
unknown   the authority could not tell in time             status FAILED, with         goes on
                                                           ``AUTHORIZATION_UNKNOWN``
========  ===============================================  ==========================  ======================================

What was taken while it was allowed, and could not be written because nobody read, is not told once it is not: the stream ends, with what
is known then; if only secrets may not be seen any more with ``AUTHORIZATION_UNKNOWN``.

A namespace that is told of again goes on where it stood. What its reader has is not taken from him: a status is no ``reset``.

How long a watch may go on after its permission was withdrawn: until the authority notices (a file: ``rereading.LOOK_SECONDS``; brokers:
``authorization_cache_seconds``), and ``LOOK_SECONDS`` and ``ASK_SECONDS`` more.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import NamedTuple

from ...access import Caller, Permission
from ...core.errors import Kind, PolicyError
from ...core.reasons import Reason
from ...tasks import Kept, Owned
from .. import answers
from ..permitting import Permitting

LOOK_SECONDS = 1.0
"""How often each permission is looked at."""
ASK_SECONDS = 3.0
"""How long an authority may take to tell."""
_TURN = 1_000
"""Permissions that are looked at before others have their turn."""


class _Needs(NamedTuple):
    """What is looked at once, however many watches need it."""

    caller: Caller
    namespace: str
    permissions: tuple[Permission, ...]


class Warrant:
    """What is known of one caller in one namespace."""

    def __init__(self, wire: answers.Wire) -> None:
        """``wire``: how documents are shown."""
        self.refusal: PolicyError | None = None
        """Why nothing may be told; None: it may."""
        self.wire = wire
        """How documents are shown."""
        self.wakes: dict[object, Callable[[], None]] = {}
        """How to wake whose watches need it."""

    def check(self, name: str, wire: answers.Wire) -> None:
        """Raises what a stream ends with, if what was taken of a namespace to be shown like that may not be told any more."""
        if self.refusal is not None:
            raise self.refusal
        if self.wire is not wire:
            raise _unknown(f"How the documents of {name} are shown has changed while this watch was not read: go on with its token.")


class Warrants:
    """What all open watches need. It belongs to one event loop."""

    def __init__(self, permitting: Permitting) -> None:
        """``permitting``: asks the authority."""
        self._permitting = permitting
        self._warrants: dict[_Needs, Warrant] = {}
        self._looking = Kept("the look at the permissions of watches", self._look, failed=self._failed)

    def __len__(self) -> int:
        return len(self._warrants)

    @contextlib.asynccontextmanager
    async def joined(
        self, wake: Callable[[], None], caller: Caller, namespaces: Sequence[str], *permissions: Permission
    ) -> AsyncIterator[Mapping[str, Warrant]]:
        """Somebody watches namespaces meanwhile. Gives the warrant for each; what nobody watches is not looked at.

        Args:
            wake: called when a warrant has changed, and at each look while it refuses.
            caller: whose watch it is.
            namespaces: what is watched.
            permissions: what that takes, in each of them.

        Raises:
            PolicyError: PERMISSION_DENIED, he lacks one; UNAVAILABLE, it can't be known.
        """
        found: dict[_Needs, Warrant] = {}
        wires = await self._wires([_Needs(caller, namespace, permissions) for namespace in namespaces])
        watcher = object()
        for needs, wire in wires.items():
            found[needs] = warrant = self._warrants.setdefault(needs, Warrant(wire))
            _judge(warrant, None, wire)
            warrant.wakes[watcher] = wake
        self._looking.start()
        try:
            yield {needs.namespace: warrant for needs, warrant in found.items()}
        finally:
            for needs, warrant in found.items():
                del warrant.wakes[watcher]
                if not warrant.wakes:
                    del self._warrants[needs]
            if not self._warrants:
                self._looking.cancel()

    async def _wires(self, all_needs: Sequence[_Needs]) -> dict[_Needs, answers.Wire]:
        """How the documents of each are shown; what was known before others were asked for is looked at again then."""
        wires = {needs: self._wire_at_once(needs) for needs in all_needs}
        asked: dict[_Needs, answers.Wire] = {}
        while unknown := [needs for needs, wire in wires.items() if wire is None]:
            asked |= zip(unknown, await asyncio.gather(*map(self._wire, unknown)), strict=True)
            wires = {needs: self._wire_at_once(needs) or asked.get(needs) for needs in wires}
        return {needs: wire for needs, wire in wires.items() if wire is not None}

    async def _look(self) -> None:
        asking: dict[_Needs, asyncio.Task[Exception | None]] = {}
        owned = Owned("the permissions of watches")
        try:
            while True:
                await asyncio.sleep(LOOK_SECONDS)
                for needs in [needs for needs, task in asking.items() if task.done()]:
                    if (failure := asking.pop(needs).result()) is not None:
                        raise failure
                for number, needs in enumerate(list(self._warrants), 1):
                    if not self._known(needs) and needs not in asking:  # others are looked at while this one is asked for
                        asking[needs] = owned.begin(self._ask(needs), needs.namespace)
                    if not number % _TURN:
                        await asyncio.sleep(0)
        finally:
            await owned.close()

    def _known(self, needs: _Needs) -> bool:
        """Looks at what is known at once; whether all of it is."""
        try:
            wire = self._wire_at_once(needs)
        except PolicyError as error:
            self._judge(needs, error)
            return True
        if wire is not None:
            self._judge(needs, None, wire)
        return wire is not None

    async def _ask(self, needs: _Needs) -> Exception | None:
        """Asks, and judges; what went wrong in a way that nobody foresaw is for whoever looks."""
        try:
            async with asyncio.timeout(ASK_SECONDS):
                wire = await self._wire(needs)
        except PolicyError as error:
            self._judge(needs, error)
        except TimeoutError:
            problem = f"What the caller may do in {needs.namespace} could not be learnt in {ASK_SECONDS:g} s: it is asked again."
            self._judge(needs, _unknown(problem))
        except Exception as error:  # noqa: BLE001 (told)
            return error
        else:
            self._judge(needs, None, wire)
        return None

    def _judge(self, needs: _Needs, refusal: PolicyError | None, wire: answers.Wire | None = None) -> None:
        """As ``_judge``; nothing, if nobody watches any more. ``wire``: None leaves it as it is."""
        warrant = self._warrants.get(needs)
        if warrant is not None:
            _judge(warrant, refusal, warrant.wire if wire is None else wire)

    def _failed(self, _: BaseException) -> None:
        """Looking failed as a whole: nothing is told until it goes on."""
        for needs, warrant in self._warrants.items():
            problem = f"What the caller may do in {needs.namespace} can't be told, for a reason that this server's own log has."
            _judge(warrant, _unknown(problem), warrant.wire)

    def _wire_at_once(self, needs: _Needs) -> answers.Wire | None:
        """The same as far as it is known now; None: it has to be asked for.

        Raises:
            PolicyError: they don't let him.
        """
        caller, namespace, permissions = needs
        if not self._permitting.at_once(caller, namespace, *permissions):
            return None
        return self._permitting.wire_at_once(caller, namespace)

    async def _wire(self, needs: _Needs) -> answers.Wire:
        """How documents are shown to whom these permissions let watch.

        Raises:
            PolicyError: they don't, or that is not known.
        """
        caller, namespace, permissions = needs
        await self._permitting.need(caller, namespace, *permissions)
        wire = await self._permitting.wire(caller, namespace)
        return self._wire_at_once(needs) or wire  # what was learnt first may be otherwise by now


def _unknown(problem: str) -> PolicyError:
    return PolicyError(Kind.UNAVAILABLE, Reason.AUTHORIZATION_UNKNOWN, problem)


def _judge(warrant: Warrant, refusal: PolicyError | None, wire: answers.Wire) -> None:
    """The newest verdict; those that it concerns are woken if it is another one, or a refusal: who does not read has still to be left."""
    old = warrant.refusal
    same = (old is None) == (refusal is None) and (old is None or refusal is None or old.reason is refusal.reason)
    if not same or wire is not warrant.wire:
        warrant.refusal, warrant.wire = refusal, wire
    elif refusal is None:
        return
    for wake in list(warrant.wakes.values()):
        wake()
