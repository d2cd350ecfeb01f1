"""Declared policies: plan, apply and export.

- ``apply``: the commands
- ``declared``: the file; ``planning``: the steps that make documents as it declares; ``applying``: sends the steps
"""
