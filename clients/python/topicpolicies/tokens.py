"""Where a watch is, so that it can go on from there later, in this process or another."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import chain

from .errors import Violation, invalid
from .v1 import service_pb2


@dataclass(frozen=True, slots=True)
class WatchToken:
    """A place in one namespace's change log. Opaque but for one thing: of one partition, string order is log order."""

    log: str
    """The log's identity; places of different logs have nothing to do with each other."""
    positions: tuple[str, ...]
    """The position per partition; empty where nothing was read."""
    left_out: str = ""
    """Names the topics that were left out because their policies are disabled; empty: none were."""

    @classmethod
    def of(cls, message: service_pb2.WatchToken) -> WatchToken:
        """From its message."""
        return cls(message.log, tuple(message.positions), message.left_out)

    def message(self) -> service_pb2.WatchToken:
        """As a message."""
        return service_pb2.WatchToken(log=self.log, positions=self.positions, left_out=self.left_out)

    def at(self, partition: int) -> str:
        """The position in a partition; empty if nothing was read there."""
        return self.positions[partition] if partition < len(self.positions) else ""

    def folded(self, partition: int, position: str) -> WatchToken:
        """The token after a change at this position: the greater of the two counts."""
        if position <= self.at(partition):
            return self
        positions = list(self.positions) + [""] * (partition + 1 - len(self.positions))
        positions[partition] = position
        return replace(self, positions=tuple(positions))


@dataclass(frozen=True, slots=True)
class ResumeToken:
    """Where a watch is in each of its namespaces. A namespace that is missing begins with a snapshot."""

    namespaces: Mapping[str, WatchToken] = field(default_factory=dict)
    """By ``tenant/namespace``."""

    def dumps(self) -> str:
        """As one line of JSON, to be kept and given to ``loads``."""
        places = {name: asdict(token) for name, token in sorted(self.namespaces.items())}
        return json.dumps({"namespaces": places}, separators=(",", ":"))

    @classmethod
    def loads(cls, text: str) -> ResumeToken:
        """From what ``dumps`` gave.

        Raises:
            InvalidArgument: it is something else (reason ``MALFORMED_TOKEN``).
        """
        try:
            places = json.loads(text)["namespaces"]
            tokens = {name: WatchToken(place["log"], tuple(place["positions"]), place["left_out"]) for name, place in places.items()}
            texts = ((token.log, token.left_out, *token.positions) for token in tokens.values())
            well_formed = all(isinstance(each, str) for each in chain.from_iterable(texts))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            well_formed = False
            tokens = {}
        if not well_formed:
            problem = "This is not a saved watch token. Begin without one: the watch starts with a snapshot."
            raise invalid("MALFORMED_TOKEN", Violation("resume", "MALFORMED_TOKEN", problem))
        return cls(tokens)
