"""Changes: a field mask and its values, checked, compiled, and applied to the document of a policy key.

- ``fields``: the fields of a message type, as field masks need them, and those of a request that this version lacks
- ``masks``: field masks on documents, checked and applied
- ``completion``: checks values, and completes objects with the leaves that are left out
- ``plan``: the settings of a document that a mask names
- ``change``: an update request, compiled by means of the modules above
"""
