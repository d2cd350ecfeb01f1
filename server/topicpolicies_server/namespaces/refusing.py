"""Why all changes are refused at once: the change log is out of reach, or nothing may be written here."""

from __future__ import annotations

from typing import NamedTuple

from ..core.chains.refusals import nothing_is_written
from ..core.errors import PolicyError
from .common import Common


class Refusal(NamedTuple):
    """The error with which all changes are refused."""

    error: PolicyError
    dry_runs: bool
    """Whether dry runs are refused too."""


def refusal(name: str, common: Common) -> Refusal | None:
    """Returns why every change of the namespace ``name`` is refused now; None: it is not."""
    if common.readiness.cut_off and (error := common.readiness.refuses_changes()) is not None:
        return Refusal(error, dry_runs=True)
    return Refusal(nothing_is_written(name), dry_runs=False) if common.read_only else None
