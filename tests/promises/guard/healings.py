"""The lines that guards log of their healings, and whether a healing took back an earlier one.

Every setting is a number that only grows (``shared/settings``). So a healing to less than an earlier healing's number undid it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

_LINE = re.compile(r" healed (\S+) \((\w+)\): (.*); (?:because of |it was so when )")
_SETTING = re.compile(r"(\S+): (\w+) -> (\w+)(?=;|$)")
_UNSET = "unset"


class Healing(NamedTuple):
    """One setting that a guard healed, as it logged it."""

    topic: str
    setting: str
    before: int
    """The number that brokers showed; 0: none."""
    after: int

    def __str__(self) -> str:
        return f"{self.topic} {self.setting}: {self.before or _UNSET} -> {self.after or _UNSET}"


def healings(lines: Iterable[str]) -> list[Healing]:
    """Returns the healings in the lines of a guard, setting by setting; healings of the version alone change none."""
    found = []
    for line in lines:
        match = _LINE.search(line)
        if match is not None:
            topic, _, difference = match.groups()
            for setting, before, after in _SETTING.findall(difference):
                found.append(Healing(topic, setting, _number(before), _number(after)))
    return found


def taken_back(logged: Iterable[Healing]) -> list[Healing]:
    """Returns the healings, in the order of their lines, that set less than an earlier one of the same setting."""
    highest: dict[tuple[str, str], int] = {}
    found = []
    for healing in logged:
        key = (healing.topic, healing.setting)
        if healing.after < highest.get(key, 0):
            found.append(healing)
        highest[key] = max(highest.get(key, 0), healing.after)
    return found


def _number(shown: str) -> int:
    return 0 if shown == _UNSET else int(shown)
