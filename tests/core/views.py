"""What a view holds, for tests."""

from __future__ import annotations

from topicpolicies_server.core.fold.fold import KeyState
from topicpolicies_server.core.names import PolicyKey
from topicpolicies_server.core.reading.cell import Head, key_of
from topicpolicies_server.core.reading.view import View, _state_of


def heads_of(view: View) -> list[Head]:
    """Returns all heads, the oldest change first, absent documents included."""
    return [head for place in reversed([*view.places()]) if (head := view.head(key_of(place.name))) is not None]


def states_of(view: View) -> list[tuple[PolicyKey, KeyState]]:
    """Returns the fold's state of every key, to be read only."""
    return [(key_of(name), _state_of(name, kept)) for name, kept in view._cells.items()]
