"""What all watches are told from."""

from __future__ import annotations

from typing import NamedTuple

from ...cluster.switchboard import Switchboard
from ...core.reading.watch import Token
from ...namespaces.registry import Registry
from .. import answers

NOTHING_READ = Token("", ())
"""The place of who has nothing of a namespace."""


class Desk(NamedTuple):
    """What all watches are told from."""

    registry: Registry
    wire: answers.Wire
    """How documents are shown."""
    switchboard: Switchboard | None = None
    """Tells which topics have policies, and when that changes; None: all have."""
