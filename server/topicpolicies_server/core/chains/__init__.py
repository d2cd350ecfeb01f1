"""Chains: the updates of one policy key, one after the other, from the request to its result.

- ``request``: what is asked of a chain, and what is answered
- ``link``: a request that was computed, and where its event is; the states of an update
- ``event``: the event of an update
- ``answers``: the answers that need no event
- ``refusals``: the errors
- ``ground``: what the chains of a namespace stand on, and their effects there
- ``chain``: the updates of one policy key, one computed on the other
- ``sequencer``: the chains of a namespace
"""
