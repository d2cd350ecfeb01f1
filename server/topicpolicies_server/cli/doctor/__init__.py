"""The doctor: a series of checks of a sidecar, of its broker, and of the connections between them.

- ``doctor``: the command
- ``checks``: a check and its finding, and how checks are run, each in bounded time; ``report``: findings for people and programs
- ``reaching``, ``certificates``, ``sidecar``, ``permissions``, ``metrics``, ``scratch``: checks as a client of the sidecar
- ``brokers``, ``disk``: checks as the operator of the sidecar, who has its options
- ``tokens``, ``clocks``: judge tokens and clocks for checks of both kinds
"""
