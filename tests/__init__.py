"""Tests; the rooms mirror those of the server."""
