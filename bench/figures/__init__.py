"""Every figure that the project promises, beside its limit, in one run: ``python3 dev.py bench figures``.

| module | purpose |
|---|---|
| ``figure`` | a figure, its target, and whether the target was reached |
| ``scale`` | how much is measured |
| ``catalog`` | all figures, in the groups that are measured together |
| ``conditions`` | the machine, and whether it does other work |
| ``supervising`` | runs each group in its own processes, for a bounded time |
| ``table`` | the result, for people and for programs |
| ``command`` | the command line |

The others each measure one group: ``unary``, ``batches`` (with ``etcd``), ``asking``, ``quotas``, ``on_pulsar`` (with ``publishing``),
``starting`` (with ``filling`` and ``draining``), ``memory``, ``following``, ``taking``, ``watching``, ``crowd``; ``library`` opens
pulsar-client.
"""
