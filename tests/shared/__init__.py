"""Sidecars beside brokers that are administered over REST at the same time, on one namespace: nobody's change is undone.

- ``settings``: who changes what: each writer its own settings, to values that only grow
- ``rest``, ``clients``, ``naive``: the writers: the admin API, the sidecars' clients, and a careful second writer of the naive kind
- ``heads``: a watch that sees whether anything is ever undone; ``raw_log``: what stands in the log, and what brokers make of it
- ``run``: one run, and what it came to; ``python -m tests.shared`` makes longer ones
- ``clashes``, ``late_repairs``: documents that are left stale on purpose, and what somebody finds of them who starts after a late repair
- ``restarts``: runs in which the sidecars are restarted in turn, ``python -m tests.shared.restarts``; ``interrupted`` is what they share
  with those of guards (``tests/guard/restarts``), ``wrong_times`` from when to when brokers showed what was wrong
"""
