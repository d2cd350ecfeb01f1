"""Changes: a field mask and its values, checked, compiled, and applied to whichever document there is.

- ``shapes``: what field masks need to know of a message type
- ``masks``: field masks on any message, checked and applied
- ``completion``: values and objects, checked and completed by their leaves
- ``plan``: what a mask means for a document's settings
- ``change``: an update request, compiled; all of the above in one
"""
