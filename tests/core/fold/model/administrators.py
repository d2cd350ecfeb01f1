"""Administrators that each change a setting of their own, round after round; the value of the last call is recorded."""

from __future__ import annotations

import functools
import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from topicpolicies_server.core.policies.documents import Setting, Settings

from .clock import Clock

SIDECAR: Setting = "message_ttl_in_seconds"
"""The setting that a client of the sidecar changes."""
SETTINGS: tuple[Setting, ...] = (
    "max_producer_per_topic",
    "max_consumer_per_topic",
    "max_subscriptions_per_topic",
    "compaction_threshold",
    "max_consumers_per_subscription",
    "max_unacked_messages_on_consumer",
)
_PAUSE = 2
"""How long an administrator waits after an answer before the next call, in milliseconds."""

Answered = Callable[[], None]


@dataclass(frozen=True)
class Mix:
    """Which calls are made, and when."""

    values: int = 1_000
    """How many values of a setting there are, which take turns."""
    sidecar: bool = False
    """Whether a client of the sidecar changes a setting too."""
    spread: int = 40
    """Over how many milliseconds the calls of a round are spread."""
    removals: float = 0
    """The share of calls that remove their setting, set or not."""
    repeats: float = 0
    """The share of calls that set their setting to its present value."""
    reverts: float = 0
    """The share of calls that are followed by one that restores the value before."""
    after: tuple[int, int] = (5, 900)
    """How much later the value is restored, in milliseconds."""
    quiet: bool = False
    """Whether only one administrator calls in a round."""
    single: bool = False
    """Whether one administrator makes all calls, each as soon as the one before is in the log."""

    @property
    def settings(self) -> tuple[Setting, ...]:
        """The settings that are changed."""
        return (*SETTINGS, SIDECAR) if self.sidecar else SETTINGS


class _Call(NamedTuple):
    """A call of an administrator in a round."""

    at: int
    """How long after the round's beginning, in milliseconds."""
    setting: Setting
    value: bytes | None
    """None: the setting is removed."""


class Administrators:
    """All administrators of a run."""

    def __init__(
        self,
        mix: Mix,
        clock: Clock,
        chance: random.Random,
        counts: Counter[str],
        make: Callable[[Setting, bytes | None, Answered], None],
    ) -> None:
        """Makes no calls yet.

        Args:
            mix: the calls to make.
            clock: the simulated time.
            chance: the source of randomness.
            counts: counts ``calls``, and those that are ``set back``.
            make: makes a call, and invokes its last argument when the call is answered.
        """
        self.left: dict[Setting, bytes | None] = dict.fromkeys(mix.settings)
        """Each setting as the last call left it."""
        self.calling = 0
        """How many administrators have calls to make or wait for an answer."""
        self._mix = mix
        self._clock = clock
        self._chance = chance
        self._counts = counts
        self._make = make
        self._unseen: set[Setting] = set()

    def settle(self) -> None:
        """Sets every setting, one call after the other."""
        self._one_by_one((_Call(0, setting, b"0") for setting in self.left), self._clock.now)

    def begin(self, number: int) -> None:
        """Schedules the calls of a round."""
        chance, mix = self._chance, self._mix
        value = b"%d" % (number % mix.values)
        by_administrator: list[list[_Call]] = []
        for setting in (chance.choice(mix.settings),) if mix.quiet else mix.settings:
            calls = [_Call(chance.randint(0, mix.spread), setting, self._next(setting, value))]
            if mix.reverts and chance.random() < mix.reverts:
                calls.append(_Call(calls[0].at + chance.randint(*mix.after), setting, self.left[setting]))
                self._counts["set back"] += 1
            by_administrator.append(calls)
        if mix.single:
            by_administrator = [sorted(itertools.chain.from_iterable(by_administrator), key=lambda call: call.at)]
        for calls in by_administrator:
            self._one_by_one(iter(calls), self._clock.now)

    def wrong(self, shown: Settings | None) -> set[Setting]:
        """Returns the settings that do not have the value of their last call."""
        return {setting for setting, value in self.left.items() if (shown or {}).get(setting) != value}

    def newly_lost(self, shown: Settings | None) -> list[Setting]:
        """Returns the settings that do not have the value of their last call, and were not returned since that call."""
        wrong = self.wrong(shown)
        lost = sorted(wrong - self._unseen)
        self._unseen = wrong
        return lost

    def _one_by_one(self, calls: Iterator[_Call], begun: int) -> None:
        """Makes calls, each at its time or when the one before has been answered, whichever is later."""
        self.calling += 1
        self._following(calls, begun, 0)

    def _following(self, calls: Iterator[_Call], begun: int, pause: int) -> None:
        call = next(calls, None)
        if call is None:
            self.calling -= 1
            return
        answered = functools.partial(self._following, calls, begun, _PAUSE)
        self._clock.after(max(begun + call.at - self._clock.now, pause), functools.partial(self._call, call, answered))

    def _call(self, call: _Call, answered: Answered) -> None:
        self.left[call.setting] = call.value
        self._unseen.discard(call.setting)
        self._counts["calls"] += 1
        self._make(call.setting, call.value, answered)

    def _next(self, setting: Setting, value: bytes) -> bytes | None:
        """Returns the value to which a call sets its setting; None: it removes it."""
        mix = self._mix
        kind = self._chance.random() if mix.removals or mix.repeats else 1.0
        if setting == SIDECAR or kind >= mix.removals + mix.repeats:
            return value
        return None if kind < mix.removals else self.left[setting]
