"""The simulation: sidecars, brokers and clients on one namespace, on a simulated clock, with faults, from a seed.

The service's own code runs unchanged: servicer, namespaces, sequencer, view and hub, over the memory log. In some profiles that log
consists of ledgers and is read by the Pulsar log's own reader. Everything around this code is simulated, and decided by the seed:

- ``loop``: time and order.
- ``world``: one cluster: the stored log, the sidecars, the brokers, and the recorded history. ``sidecar``: a process that can crash.
  ``process_log``: its logs. ``calls``: the contexts and the errors of its calls. ``broker``: writers that know nothing of sidecars.
  ``faults``: faults between a process and the log. ``nemesis``: all other faults.
- ``traffic``: the updates that are requested. ``clients``, ``batches``, ``watchers``: the clients that request, repeat and resume.
- ``delays``: repairs that are late by any time, and sidecars that start and end meanwhile. ``passers``: the clients of those sidecars.
  ``compaction``: when the log is compacted. ``knowledge``: which sidecars have seen what, and what is promised then.
- ``profile``: the participants and the rates of faults. ``run``: one run from its seed. ``report``: the story of a run, and its counters.

``tests/validators`` judges the histories; where one sidecar at a time writes, ``terms`` does so too.
``python -m tests.simulation --profile NAME --seed N`` replays a run; without a seed it runs many.
"""
