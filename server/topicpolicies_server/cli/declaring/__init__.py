"""Declared policies: ``apply`` has the commands, ``declared`` the file, ``planning`` the steps that it asks for, ``applying`` sends."""
