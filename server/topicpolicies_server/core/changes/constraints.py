"""Constraints: bounds of an operator on the values of settings, beside Pulsar's own rules.

Like rules they are about the document after a change, and only about settings that the change alters: a value that is there already may
stay, and so may the absence of one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

from topicpolicies.masks import Path, format_path
from topicpolicies.v1.policies_pb2 import TopicPolicies

from ..errors import Violation
from ..policies.documents import Document, Setting, family, join
from ..reasons import ViolationReason
from . import masks


class Constraint(NamedTuple):
    """What the value of one path may be, where there is one."""

    path: Path
    topics: str
    """A topic's full name, or a pattern of full names, that it is for."""
    with_unit: Callable[[Any, str], str]
    """Returns the number of a field, by the field's name, as people write it."""
    least: float | None = None
    """The least number; None: any."""
    most: float | None = None
    """The greatest number, which forbids negative ones too, as they mean "no limit"; None: any."""
    allowed: frozenset[Any] | None = None
    """The values that it may be, or a list may have; None: any."""
    choice: str = ""
    """The allowed values, as they are written."""

    def problem(self, value: Any) -> str:
        """Returns what is wrong with a value, and what to do; empty: nothing."""
        name, field = format_path(self.path), self.path[-1]
        this = f"a constraint of the declared policies, for {self.topics},"
        if self.least is not None and value < self.least:
            least = self.with_unit(self.least, field)
            return f"{name} is {self.with_unit(value, field)}, and {this} wants at least {least}: give no less than that."
        if self.most is not None and (value > self.most or value < 0):
            most = self.with_unit(self.most, field)
            return f"{name} is {self.with_unit(value, field)}, and {this} allows at most {most}: give no more than that."
        values: list[Any] = [] if self.allowed is None else [value] if isinstance(value, (str, int)) else value
        wrong = [each for each in values if each not in (self.allowed or ())]
        if not wrong:
            return ""
        named = ", ".join(each for each in wrong if isinstance(each, str)) or "its value"
        return f"{name}: {named} is not allowed by {this.rstrip(',')}; allowed: {self.choice}."


def violations(constraints: Sequence[Constraint], changed: Collection[Setting], after: Document) -> Iterator[Violation]:
    """Yields every violation of constraints by a change that alters the settings ``changed``."""
    parsed: TopicPolicies | None = None
    for each in constraints:
        if any(family(setting) == each.path[0] for setting in changed):
            parsed = parsed if parsed is not None else join({setting: after[setting] for setting in changed if setting in after})
            if masks.is_set(each.path, parsed) and (problem := each.problem(_value(each.path, parsed))):
                yield Violation(f"policies.{format_path(each.path)}", ViolationReason.CONSTRAINT, problem)


def _value(path: Path, message: TopicPolicies) -> Any:
    value: Any = message
    for segment in path:
        value = value[segment] if hasattr(value, "keys") else getattr(value, segment)
    return value
