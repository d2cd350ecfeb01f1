"""Reading: the heads of a namespace, built from the events of its log, and the watchers that follow their changes.

- ``cell``: all that a view keeps of a policy key, in use or at rest, and the key's head: what callers and watchers are shown
- ``orders``: the keys of a view by name, for pages; and those that had events lately
- ``view``: the heads of one namespace; built from the modules above
- ``readback``: one order for the events that are acknowledged and those that are read
- ``tokens``: what a watcher wants, where it stands, and from where it can resume
- ``watch``: the ring of recent changes, the hub, which passes the changes of a view on to all watchers, and what each watcher is owed
"""
