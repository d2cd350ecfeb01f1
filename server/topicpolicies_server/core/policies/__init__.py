"""Documents: what the policies of a topic are, the events that carry them, and what holds for a topic in the end.

- ``texts``: texts and ids as bytes
- ``documents``: documents as settings, the unit in which they are compared and merged
- ``events``: the events of a change log, and their places in it
- ``packed``: documents as bytes
- ``facts``: what is known of the cluster around the log
- ``resolution``: effective policies, and which level says so
- ``secrets``: what is shown as ``REDACTED``, and kept by whoever writes that back
"""
