"""Guards of real brokers: what they heal, what they leave alone, and what they do when they are restarted or come late.

- ``guarding``: ``topicpolicies guard`` in a process of its own; ``healings``: the lines that it logs
- ``storm``, ``churn``: administrators whose calls overlap
- ``restarts``: guards that are ended and started again, ``python -m tests.promises.guard.restarts`` makes longer runs
"""
