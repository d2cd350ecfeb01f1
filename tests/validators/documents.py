"""Documents as flat mappings, and what an update asks for: told here a second time, and much more simply than in the service.

A path names a leaf: ``max_producer_per_topic``, ``retention_policies.retention_size_in_mb``,
``subscription_policies.billing.dispatch_rate.rate_period_in_second``. Lists are tuples, which are unset when they are empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Value: TypeAlias = int | str | bool | float | tuple[str | int, ...]
Document: TypeAlias = Mapping[str, Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """What an update does to a document. The parts happen in the order in which they stand here."""

    delete: bool = False
    """Removes the document; nothing else then."""
    whole: bool = False
    """Replaces the document: everything that was there goes first."""
    clears: tuple[str, ...] = ()
    """Leaves, objects, or entries of maps that are unset."""
    needs: str = ""
    """An object of which this names some leaves only, which can't come into being from them: refused where it is not there."""
    sets: Mapping[str, Value] = field(default_factory=dict)
    """Leaves with their new values."""
    defaults: Mapping[str, Value] = field(default_factory=dict)
    """What other leaves of an object become with it, unless they have values."""
    adds: Mapping[str, tuple[str | int, ...]] = field(default_factory=dict)
    """Elements that lists have at their ends afterwards, unless they were there."""
    removes: Mapping[str, tuple[str | int, ...]] = field(default_factory=dict)
    """Elements that lists do not have afterwards."""

    def refused(self, document: Document | None) -> bool:
        """Whether it can't be applied to a document."""
        return bool(self.needs) and not any(path.startswith(f"{self.needs}.") for path in document or ())

    def after(self, document: Document | None) -> Document | None:
        """The document that it makes of another one."""
        if self.delete:
            return None
        after = {} if self.whole else dict(document or {})
        for cleared in self.clears:
            for path in [path for path in after if path == cleared or path.startswith(f"{cleared}.")]:
                del after[path]
        after.update(self.sets)
        for path, value in self.defaults.items():
            after.setdefault(path, value)
        for path, elements in self.adds.items():
            after[path] = tuple(dict.fromkeys((*_elements(after, path), *elements)))
        for path, elements in self.removes.items():
            after[path] = tuple(element for element in _elements(after, path) if element not in elements)
            if not after[path]:
                del after[path]
        return after

    def changes(self, document: Document | None) -> bool:
        """Whether it makes a difference. To set nothing where there is no document makes none."""
        if self.delete:
            return document is not None
        return (self.after(document) or None) != (document or None)


def _elements(document: Document, path: str) -> tuple[str | int, ...]:
    value = document.get(path, ())
    return value if isinstance(value, tuple) else ()
