"""Chains: the updates of one policy key, one after the other, from the request to its result."""
