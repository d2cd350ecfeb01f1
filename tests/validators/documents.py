"""Documents as flat mappings, and the effects of updates: implemented a second time, much more simply than in the service.

A path names a leaf: ``max_producer_per_topic``, ``retention_policies.retention_size_in_mb``,
``subscription_policies.billing.dispatch_rate.rate_period_in_second``. Lists are tuples; an empty list is an unset one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Value: TypeAlias = int | str | bool | float | tuple[str | int, ...]
Document: TypeAlias = Mapping[str, Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """The effect of an update on a document. The parts are applied in the order of the fields."""

    delete: bool = False
    """Whether it removes the document; the other parts are not used then."""
    whole: bool = False
    """Whether it replaces the document: everything in it is removed first."""
    clears: tuple[str, ...] = ()
    """Leaves, objects, or entries of maps to unset."""
    needs: str = ""
    """An object that can't be created from the leaves that this sets: the update is refused if the document does not have it."""
    sets: Mapping[str, Value] = field(default_factory=dict)
    """Leaves to set, with their values."""
    defaults: Mapping[str, Value] = field(default_factory=dict)
    """Values of other leaves of the object, for those that have none."""
    adds: Mapping[str, tuple[str | int, ...]] = field(default_factory=dict)
    """Elements to append to lists that do not have them."""
    removes: Mapping[str, tuple[str | int, ...]] = field(default_factory=dict)
    """Elements to remove from lists."""

    def refused(self, document: Document | None) -> bool:
        """Whether the update is refused for a document."""
        return bool(self.needs) and not any(path.startswith(f"{self.needs}.") for path in document or ())

    def after(self, document: Document | None) -> Document | None:
        """Returns a document after the update."""
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
        """Whether it changes a document. No document and an empty one are the same."""
        if self.delete:
            return document is not None
        return (self.after(document) or None) != (document or None)


def _elements(document: Document, path: str) -> tuple[str | int, ...]:
    value = document.get(path, ())
    return value if isinstance(value, tuple) else ()
