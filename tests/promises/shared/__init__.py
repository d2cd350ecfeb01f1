"""Sidecars and administrators of brokers that change one namespace at the same time: no change is undone.

- ``settings``: the settings of each writer, which only this writer changes, to values that only grow
- ``rest``, ``clients``, ``naive``: the writers: the admin API, the sidecars' clients, and a naive second writer
- ``heads``: a watch that detects a change that is undone; ``raw_log``: the events of the log, and what brokers show because of them
- ``run``: one run and its results; ``python -m tests.promises.shared`` makes longer runs
- ``late_repairs``: documents that are left stale on purpose, and their events as a reader after a late repair sees them
- ``restarts``: runs in which the sidecars are restarted in turn, ``python -m tests.promises.shared.restarts``; ``interrupted``: the part
  that they share with the runs of guards (``tests/promises/guard/restarts``)
"""
