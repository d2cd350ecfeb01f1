"""Chains: the updates of one policy key, one after the other, from the request to its result.

- ``request``: an update or a delete, and the answer to it
- ``link``: a request that was computed, its event, and the state of that event on the way to the log and back
- ``answers``: the answers that need no event, and the errors
- ``sequencer``: the chains of a namespace, each the updates of one policy key, computed one on the result of the other
"""
