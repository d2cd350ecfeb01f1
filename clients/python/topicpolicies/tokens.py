"""Tokens: the place that a watch has come to, from which it can continue later, in this process or another."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import chain

from .errors import Violation, invalid
from .v1 import service_pb2


@dataclass(frozen=True, slots=True)
class WatchToken:
    """A place in one namespace's change log. Positions are opaque, except that in one partition string order is log order."""

    log: str
    """The identity of the log; places in different logs can't be compared."""
    positions: tuple[str, ...]
    """The position in each partition; empty where nothing was read."""
    left_out: str = ""
    """Names the topics that were left out because their policies are disabled; empty: none were."""

    @classmethod
    def of(cls, message: service_pb2.WatchToken) -> WatchToken:
        """Makes a token from its message."""
        return cls(message.log, tuple(message.positions), message.left_out)

    def message(self) -> service_pb2.WatchToken:
        """Returns the token as a message."""
        return service_pb2.WatchToken(log=self.log, positions=self.positions, left_out=self.left_out)

    def at(self, partition: int) -> str:
        """Returns the position in a partition; empty: nothing was read there."""
        return self.positions[partition] if partition < len(self.positions) else ""

    def folded(self, partition: int, position: str) -> WatchToken:
        """Returns the token after an event at ``position``. A position that is not after the token's own changes nothing."""
        if position <= self.at(partition):
            return self
        positions = list(self.positions) + [""] * (partition + 1 - len(self.positions))
        positions[partition] = position
        return replace(self, positions=tuple(positions))


@dataclass(frozen=True, slots=True)
class ResumeToken:
    """The place of a watch in each of its namespaces. A namespace without one begins with a snapshot."""

    namespaces: Mapping[str, WatchToken] = field(default_factory=dict)
    """The tokens, by ``tenant/namespace``."""

    def dumps(self) -> str:
        """Returns the token as one line of JSON, to be saved, and read with ``loads``."""
        places = {name: asdict(token) for name, token in sorted(self.namespaces.items())}
        return json.dumps({"namespaces": places}, separators=(",", ":"))

    @classmethod
    def loads(cls, text: str) -> ResumeToken:
        """Makes a token from a text that ``dumps`` returned.

        Raises:
            InvalidArgument: the text is not a saved token (reason ``MALFORMED_TOKEN``).
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
