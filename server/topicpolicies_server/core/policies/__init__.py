"""Documents: the policies of a topic, the events that carry them, and the policies that hold for a topic in the end.

- ``documents``: documents as settings, the unit in which they are compared and merged
- ``events``: the events of a change log, and their positions in it
- ``facts``: what is known of the cluster around the log
- ``resolution``: effective policies, and the level that each value comes from
- ``secrets``: credentials in documents, shown as ``REDACTED`` and kept when that is written back
"""
