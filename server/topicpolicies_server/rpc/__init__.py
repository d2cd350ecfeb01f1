"""The gRPC side: requests in, answers out, the only mapper of errors, and the server that wires the process together.

The server and its life:

- ``server``: opens everything in order, and closes it in reverse order
- ``log_opening``: opens the change log that the configuration names
- ``listening``: the gRPC server, its options and its address
- ``certificates``: the server's certificate and the clients' authorities, read again while the server runs
- ``stopping``: ends the calls when the server stops

Every call:

- ``handlers``: the methods as gRPC calls them: bytes in, bytes out
- ``arriving``: waits for requests, and gives up those that do not arrive
- ``decoding``: decodes requests
- ``call``, ``calls``: one call, and all calls in progress: their states, doors and observers
- ``lateness``, ``deadline_errors``: ends calls whose deadlines are near, with an error that says why
- ``errors``, ``failures``: maps errors to gRPC statuses; logs unforeseen ones

Doors (each may refuse a call), and what ends streams later:

- ``trusting``: is the authority of the client's certificate still trusted?
- ``identifying``: who is the caller?
- ``expiring``, ``leaving``: ends streams when credentials have expired, and how they end
- ``rationing``, ``pace``: the limits of each principal, and how they slow its update streams down

The methods:

- ``servicer``: the methods of the service
- ``permitting``: checks permissions
- ``requests``, ``problems``, ``authors``: reads and validates requests; finds out who makes a change, and why
- ``answers``: serializes answers
- ``streaming``, ``refused_namespaces``: UpdatePolicies, and the namespaces in which it was refused because another process leads
- ``watching``: WatchPolicies
- ``listing``, ``page_tokens``: ListPolicies, and the tokens of its pages
- ``effective``: GetEffectivePolicy
- ``histories``, ``recorded``: ListHistory and documents as of a moment; serializes what the history has
- ``info``: GetServerInfo
- ``health``: gRPC's health service

Observers, and what operators see:

- ``journal``, ``recordfile``: the record of calls, and its file
- ``tracing``, ``telemetry``: traces calls; sends spans and metrics to a collector
- ``peers``, ``unread``: keeps the log free of peers that have gone; names peers that do not read
"""
