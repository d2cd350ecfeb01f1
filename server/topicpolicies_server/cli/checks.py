"""A check and its finding, and how checks are run and shown: one after the other, whatever the others found."""

from __future__ import annotations

import enum
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from topicpolicies import TopicPoliciesError

from ..core.errors import PolicyError
from ..escaping import printable

_WIDTH = 79


class Level(enum.Enum):
    """What a finding means."""

    OK = "ok"
    WARNING = "warning"
    """It works, but not well."""
    FAILED = "failed"
    SKIPPED = "skipped"
    """The check was not run, because another one, which it needs, did not succeed."""


class Finding(NamedTuple):
    """What a check found."""

    level: Level
    told: str = ""
    """What was found."""
    remedy: str = ""
    """What to do about a WARNING or FAILED; empty: ``Check.remedy``."""


def ok(told: str = "") -> Finding:
    """Returns the finding that what is checked holds."""
    return Finding(Level.OK, told)


def failed(told: str, remedy: str = "") -> Finding:
    """Returns the finding that what is checked does not hold."""
    return Finding(Level.FAILED, told, remedy)


class Check(NamedTuple):
    """One check."""

    name: str
    """The name for programs."""
    holds: str
    """What holds if all is well, in a few words."""
    remedy: str
    """What to do otherwise."""
    run: Callable[[], Finding]
    """Returns in bounded time. An OSError, TopicPoliciesError or PolicyError means that the check failed."""
    needs: str = ""
    """The name of an earlier check without which this one could only repeat the failure; empty: none."""


class Result(NamedTuple):
    """A check and its finding."""

    check: Check
    finding: Finding

    @property
    def remedy(self) -> str:
        """What to do; empty: nothing."""
        return "" if self.finding.level in (Level.OK, Level.SKIPPED) else self.finding.remedy or self.check.remedy

    def lines(self) -> Iterator[str]:
        """Yields the result in lines of at most 79 columns."""
        told = f": {self.finding.told}" if self.finding.told else ""
        yield from _wrapped(f"{self.finding.level.value:<9}", f"{self.check.holds}{told}")
        if self.remedy:
            yield from _wrapped(f"{'':<9}remedy: ", self.remedy)

    def json(self) -> dict[str, Any]:
        """Returns the result as JSON."""
        check, finding = self.check, self.finding
        return {"check": check.name, "level": finding.level.value, "holds": check.holds, "told": finding.told, "remedy": self.remedy}


def examine(checks: Sequence[Check]) -> Iterator[Result]:
    """Runs checks in their order, and yields each result as it comes."""
    well = set[str]()
    for check in checks:
        finding = _found(check) if not check.needs or check.needs in well else Finding(Level.SKIPPED, f"it needs {check.needs}")
        if finding.level in (Level.OK, Level.WARNING):
            well.add(check.name)
        yield Result(check, finding)


def counts(results: Sequence[Result]) -> dict[str, int]:
    """Returns how many findings are of each level, by its name."""
    return {level.value: sum(result.finding.level is level for result in results) for level in Level}


def _found(check: Check) -> Finding:
    try:
        return check.run()
    except (TopicPoliciesError, PolicyError) as error:
        return failed(error.message)
    except OSError as error:
        return failed(": ".join(filter(None, (error.filename, error.strerror or str(error) or type(error).__name__))))


def _wrapped(first: str, text: str) -> list[str]:
    wrapper = textwrap.TextWrapper(_WIDTH, initial_indent=first, subsequent_indent=" " * len(first), break_on_hyphens=False)
    return wrapper.wrap(printable(text))
