"""Reading: the heads of a namespace, built from the events of its log, and the watchers that follow their changes.

- ``heads``: what a view keeps of one policy key: a cell, with its head
- ``frozen``: settled keys as compact bytes, and back
- ``frozen_fields``: single fields of a frozen key, read without thawing it
- ``cell_codec``: any cell as bytes with everything that is known of its key, and back
- ``recent_cells``: the keys of one partition that had events lately, the longest idle first
- ``order``: a sorted set of names
- ``cells``: the cells of a view, live or frozen
- ``pages``: the keys with a document, in order, for pages
- ``view``: the heads of one namespace; built from the modules above
- ``succession``: how a view's heads compare with those of the view that it replaces
- ``readback``: one order for the events that are acknowledged and those that are read
- ``tokens``: what a watcher wants, where it stands, and from where it can resume
- ``ring``: the recent changes
- ``watch``: the hub, which passes the changes of a view on to all watchers, and what each watcher is owed
"""
