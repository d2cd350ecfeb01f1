"""The gRPC side: requests in, answers out, the only mapper of errors, and the server that wires the process together.

The server and its life:

- ``server``: opens everything in order, and closes it in reverse order
- ``listening``: the gRPC server, its options, its address, and its certificates, which are read again while it runs

Every call:

- ``calls``: the one way of every call, from its arrival to its status
- ``quotas``: what each principal may use
- ``errors``: maps errors to gRPC statuses

The methods:

- ``servicer``: the methods of both services, and why a call has no answer when its deadline is near
- ``requests``, ``problems``: reads and validates the requests that change documents
- ``answers``: serializes answers, with or without what the caller may not see
- ``batches``: BatchUpdatePolicies; ``forwarding``: sends changes to the sidecar that leads their namespace
- ``watching``: WatchPolicies and WatchHistory; ``resume_tokens``: where a watch stands, as a text
- ``reads``: GetPolicy, GetEffectivePolicy and ListPolicies, and the tokens of pages
- ``histories``: the history's requests and answers
- ``health``: gRPC's health service

Observers, and what operators see:

- ``access_log``: the access log
- ``tracing``: traces calls, and sends their spans to a collector
"""
