"""Reading: the heads of a namespace, built from the events of its log, and the watchers that follow their changes.

- ``heads``: what a view keeps of one policy key: a cell, with its head
- ``frozen``: settled keys as compact bytes, and back
- ``frozen_fields``: single fields of a frozen key, read without thawing it
- ``cell_codec``: any cell as bytes with everything that is known of its key, and back
- ``recent_cells``: the keys of one partition that had events lately, the longest idle first
- ``order``: a sorted set of names
- ``cells``: the cells of a view, live or frozen
- ``pages``: the keys with a document, in order, for pages
- ``snapshot``: heads as they stood at one moment
- ``walk``: the same, found some at a time while the view goes on
- ``view``: the heads of one namespace; built from the modules above
- ``succession``: how a view's heads compare with those of the view that it replaces
- ``horizon``: from which places a watcher can resume with the heads alone
- ``readback``: one order for the events that are acknowledged and those that are read
- ``ring``: the recent changes, for watchers of every change that resume
- ``runs``: changes that several watchers take, and what is made of them once for all
- ``feed``: one queue of changes for all watchers that are up to date
- ``places``: what a watcher wants, and tokens: the places from which it resumes
- ``watcher_base``: what one watcher is still owed, and where it stands
- ``watcher``: the watchers of the modes LATEST and EVERY
- ``watch``: the hub, which passes the changes of a view on to all watchers
"""
