"""The gRPC side: requests in, answers out, the only mapper of errors, and the server that wires the process together.

- ``server`` opens everything in order, and closes it in reverse, and has the methods of each service by name; ``listening``: the gRPC
  server and its certificates
- ``calls``: the one way of every call, from its arrival to its status (``errors``), with ``quotas`` on the way; ``access_log`` and
  ``tracing`` observe calls
- ``dependencies``: what the methods depend on; ``changes``: UpdatePolicy, DeletePolicy and BatchUpdatePolicies, and why a call has no
  answer when its deadline is near; ``forwarding`` sends changes to the sidecar that leads their namespace
- ``reads``: GetPolicy, GetEffectivePolicy and ListPolicies; ``histories``: ListHistory and GetPolicyAsOf
- ``watching``: WatchPolicies and WatchHistory
- ``requests`` and ``problems`` read and validate requests, ``answers`` serializes
- ``health``: gRPC's health service
"""
