"""The simulation: sidecars, brokers and clients on one namespace, on a simulated clock, with faults, from a seed.

The service's own code runs unchanged: servicer, namespaces, sequencer, view and hub, over the memory log; in profile ``compacted`` that
stands in ledgers, and is read through the Pulsar log's own continuity. What is simulated is everything
around it, and all of it is decided by the seed:

- ``loop``: time and order.
- ``world``: one cluster: the stored log, the sidecars, the brokers; and the history that is recorded. ``sidecar``: a process that can
  crash; ``process_log``: its logs; ``calls``: what passes between it and clients. ``broker``: writers that know nothing of sidecars.
  ``faults``: what goes wrong between a process and the log. ``nemesis``: what goes wrong besides.
- ``traffic``: what is asked for. ``clients``, ``streams``, ``watchers``: who asks, and repeats, and resumes.
- ``delays``: repairs that are late by any time, and sidecars that start and end meanwhile; ``passers``: who calls those; ``compaction``:
  when the log forgets; ``knowledge``: who has seen what, and what is promised then.
- ``profile``: which of this, and how much. ``run``: one run from its seed. ``report``: what is told of it.

The histories are judged by ``tests/validators``, and where one sidecar at a time writes, by ``terms`` too.
``python -m tests.simulation --profile NAME --seed N`` replays a run; without a seed it runs many.
"""
