"""The lines that guards told of their healings, and whether one of them took back what another had healed.

Every setting is a number that only grows (``tests/shared/settings``). So a healing to less than an earlier healing came to undid it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

_LINE = re.compile(r" healed (\S+) \((\w+)\): (.*); (?:because of |it was so when )")
_SETTING = re.compile(r"(\S+): (\w+) -> (\w+)(?=;|$)")
_UNSET = "unset"


class Healing(NamedTuple):
    """One setting that a guard put right, as it saw it."""

    topic: str
    setting: str
    before: int
    """What brokers showed; 0: nothing."""
    after: int

    def __str__(self) -> str:
        return f"{self.topic} {self.setting}: {self.before or _UNSET} -> {self.after or _UNSET}"


def healings(lines: Iterable[str]) -> list[Healing]:
    """What the lines of a guard tell, setting by setting; healings of the version alone change none."""
    found = []
    for line in lines:
        told = _LINE.search(line)
        if told is not None:
            topic, _, difference = told.groups()
            for setting, before, after in _SETTING.findall(difference):
                found.append(Healing(topic, setting, _number(before), _number(after)))
    return found


def taken_back(told: Iterable[Healing]) -> list[Healing]:
    """Of healings in the order in which they were told, those that came to less than an earlier one of the same setting."""
    highest: dict[tuple[str, str], int] = {}
    found = []
    for healing in told:
        key = (healing.topic, healing.setting)
        if healing.after < highest.get(key, 0):
            found.append(healing)
        highest[key] = max(highest.get(key, 0), healing.after)
    return found


def _number(shown: str) -> int:
    return 0 if shown == _UNSET else int(shown)
