"""The doctor: what can be wrong with a sidecar, its broker and the way there, looked at one by one.

- ``checks``: a check, what it found, and how checks are run, each in bounded time; ``report``: their findings for people and programs
- ``reaching``, ``certificates``, ``server``, ``scratch``: from the side of a client of the sidecar
- ``asking``, ``brokers``, ``tokens``, ``clocks``, ``keeping``: from the side of who runs it
"""
