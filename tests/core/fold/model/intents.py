"""Intended changes, regardless of how they reach the log: applied in log order they are the truth that the fold is compared with."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from topicpolicies_server.core.policies.documents import Setting, Settings, subtract, union
from topicpolicies_server.core.policies.events import ListChange

PLAIN = ("compaction_threshold", "max_message_size", "publish_rate", "subscription_policies/a", "subscription_policies/b")
"""Settings that are changed as a whole. Two belong to one field, because settings are changed and not fields."""
OBJECT = "dispatch_rate"
"""A setting of two leaves, in the form ``left:right``."""
LEAVES = ("dispatch_throttling_rate_in_msg", "dispatch_throttling_rate_in_byte")
LIST = "replication_clusters"
NEWER = "max_message_size"
"""A setting that a broker of an older schema does not know."""


@dataclass(frozen=True)
class Intent:
    """A change, as a function of documents. It sets and clears settings, unless a field below says otherwise."""

    values: dict[Setting, bytes | None] = field(default_factory=dict)
    leaf: int | None = None
    """Sets one leaf of ``OBJECT`` to ``values[OBJECT]``."""
    operation: ListChange | None = None
    """Changes ``LIST`` by ``values[LIST]``."""
    replace: bool = False
    """Replaces the document by ``values``."""
    delete: bool = False

    def apply(self, document: Settings | None) -> Settings | None:
        """Returns the document after the change."""
        if self.delete:
            return None
        result = {} if self.replace else dict(document or {})
        for name, value in self.values.items():
            if self.leaf is not None:
                leaves = result.get(name, b":").split(b":")
                leaves[self.leaf] = value or b""
                result[name] = b":".join(leaves)
            elif self.operation is not None:
                changed = (union if self.operation is ListChange.UNION else subtract)(result.get(name), value or b"")
                result.pop(name, None)
                if changed:
                    result[name] = changed
            elif value is None:
                result.pop(name, None)
            else:
                result[name] = value
        return result

    def mask(self) -> tuple[str, ...]:
        """Returns the update mask of a request for the change."""
        if self.replace:
            return ("*",)
        if self.leaf is not None:
            return (f"{OBJECT}.{LEAVES[self.leaf]}",)
        return tuple(name.replace("/", ".") for name in self.values)


def element(name: str) -> bytes:
    """Returns one element of ``LIST`` as a record: field 24, length-delimited."""
    return b"\xc2\x01" + bytes([len(name)]) + name.encode()


class Chooser:
    """Chooses random intents. Most values are new; some are from a small set, so that settings return to earlier values."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._count = 0

    def value(self) -> bytes:
        """Returns a value, mostly one that was never used."""
        self._count += 1
        if self._chance.random() < 0.2:
            return b"=%d" % self._chance.randrange(2)
        return b"#%d" % self._count

    def admin(self, present: Settings | None, known: frozenset[str] | None) -> Intent:
        """Returns the intent of one call of a broker's admin API: of one setting, sometimes to its present value, or a deletion."""
        chance = self._chance
        name = chance.choice([name for name in (*PLAIN, OBJECT, LIST) if known is None or name.partition("/")[0] in known])
        roll = chance.random()
        if roll < 0.04:
            return Intent(delete=True)
        if roll < 0.08 and present and name in present:
            return Intent({name: present[name]})
        if roll < 0.2:
            return Intent({name: None})
        return Intent({name: self._whole(name)})

    def request(self) -> Intent:
        """Returns the intent of a request to a sidecar."""
        chance = self._chance
        roll = chance.random()
        if roll < 0.06:
            return Intent(delete=True)
        if roll < 0.10:
            return Intent({name: self._whole(name) for name in chance.sample(PLAIN, 2)}, replace=True)
        if roll < 0.25:
            operation = chance.choice(list(ListChange))
            return Intent({LIST: b"".join(element(name) for name in chance.sample("abcd", 2))}, operation=operation)
        if roll < 0.40:
            return Intent({OBJECT: self.value()}, leaf=chance.randrange(2))
        names = chance.sample(PLAIN, chance.choice((1, 1, 2)))
        return Intent({name: None if chance.random() < 0.15 else self._whole(name) for name in names})

    def _whole(self, name: Setting) -> bytes:
        if name == OBJECT:
            return self.value() + b":" + self.value()
        if name == LIST:
            return b"".join(element(name) for name in self._chance.sample("abcd", 2))
        return self.value()
