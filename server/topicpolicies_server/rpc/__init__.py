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
- ``expiring``, ``leaving``: ends streams when credentials have expired
- ``rationing``: the limits of each principal

The methods:

- ``servicer``: the methods of the service
- ``permitting``: checks permissions
- ``requests``, ``problems``, ``authors``: reads and validates requests; finds out who makes a change
- ``answers``: serializes answers
- ``batches``: BatchUpdatePolicies
- ``watching``: WatchPolicies and WatchHistory; ``resume_tokens``: where a watch stands, as a text
- ``listing``, ``page_tokens``: ListPolicies, and the tokens of its pages
- ``effective``: GetEffectivePolicy
- ``history_service``, ``histories``, ``recorded``: the methods of the history's service; reads requests; serializes what the history has
- ``info``: GetServerInfo
- ``health``: gRPC's health service

Observers, and what operators see:

- ``journal``, ``recordfile``: the record of calls, and its file
- ``tracing``: traces calls, and sends their spans to a collector
- ``peers``, ``unread``: keeps the log free of peers that have gone; names peers that do not read
"""
