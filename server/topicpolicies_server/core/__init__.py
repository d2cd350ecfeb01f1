"""The rules of the sidecar, without I/O: no asyncio, no gRPC, no Pulsar, and no clock of its own.

Everything here is ``(state, input) -> (state, effects)``; the rooms around it do the waiting and the sending.
"""
