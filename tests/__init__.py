"""Tests; their folders mirror those of the server."""
