"""The simulation: sidecars, brokers and clients on one namespace, on a simulated clock, with faults, from a seed.

The service's own code runs unchanged: methods, namespaces, sequencer, view and hub, over the memory log. In some profiles that log
consists of ledgers and is read by the Pulsar log's own reader. Everything around this code is simulated, and decided by the seed:

- ``loop``: time and order.
- ``world``: one cluster: the stored log, the sidecars, the brokers, and the recorded history. ``sidecar``: a process that can crash.
  ``calls``: the contexts and the errors of its calls. ``broker``: writers that know nothing of sidecars.
  ``faults``: faults between a process and the log. ``nemesis``: all other faults.
- ``traffic``: the updates that are requested. ``clients``, ``watchers``: the clients that request, repeat and resume.
- ``delays``: repairs that are late by any time, and sidecars that start and end meanwhile. ``compaction``: when the log is compacted.
- ``profile``: the participants and the rates of faults. ``run``: one run from its seed. ``report``: the story of a run, and its counters.

``tests/validators`` judges the histories, and ``promises`` what is promised in some profiles only.
``python -m tests.simulation --profile NAME --seed N`` replays a run; without a seed it runs many.
"""
