"""Reading: the heads of a namespace as its log tells them, and the watches that follow their changes.

- ``heads``: what a view keeps of one policy key
- ``frozen``: settled keys as bytes, and back
- ``unthawed``: what is told of a frozen key as it is
- ``whole``: keys as bytes with everything, settled or not, and back
- ``lately``: which keys had events lately, the longest idle first
- ``order``: names in their order, as they come and go
- ``cells``: the keys of a view, live or frozen
- ``pages``: the keys with a document, for pages
- ``snapshot``: heads as they stood at one moment
- ``view``: the heads of one namespace; all of the above in one
- ``unfolded``: a view that keeps what was read as it came, and folds it when somebody looks
- ``succession``: how a view compares with the one that it replaces
- ``resumed``: what of a view is kept for another process
- ``horizon``: from which places one can go on with the heads alone
- ``readback``: the order of what is acknowledged and what is read
- ``ring``: the recent changes, for watchers of every change that resume
- ``runs``: what is made once of changes that several watchers take
- ``feed``: one line of changes for all watchers that had everything
- ``places``: what a watcher wants, and from which place on
- ``standing``: what one stream is owed, and where it stands
- ``watcher``: the watchers of the two modes
- ``watch``: the hub: from the changes of a view to any number of streams
"""
