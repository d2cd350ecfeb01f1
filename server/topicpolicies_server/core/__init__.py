"""The rules of the sidecar, without I/O, a clock or an event loop: the packages around ``core`` await and send.

``docs/architecture.md`` has its packages in their order; ``tests/house/test_layers.py`` checks it.
"""
