"""Declared policies: files that say what the policies of topics are to be, and a server that keeps them so.

- ``files``: the files; ``values``: the units and the forms of values in them, documents and differences in words
- ``steps``: the changes that make documents as they are declared, and who declared what
- ``drift``: what a server does with ``--declared``
"""
