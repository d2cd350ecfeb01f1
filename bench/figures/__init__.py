"""Every figure that the project promises, beside its limit, in one run: ``python3 dev.py bench figures``.

| module | what it is for |
|---|---|
| ``figure`` | what a figure is, what is wanted of it, and whether that was reached |
| ``scale`` | how much is measured |
| ``catalog`` | all figures, in the groups that are measured together |
| ``conditions`` | the machine, and whether it does anything else |
| ``supervising`` | each group in processes of its own, for a bounded time |
| ``table`` | the result, for people and for programs |
| ``command`` | the command line |

The others each measure one group: ``unary``, ``batches`` (with ``etcd``), ``asking``, ``rationing``, ``on_pulsar`` (with ``publishing``),
``starting`` (with ``filling`` and ``draining``), ``memory``, ``following``, ``taking``, ``watching``, ``crowd``; ``library`` opens
pulsar-client.
"""
