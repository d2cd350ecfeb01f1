"""The commands that call a server: documents, their history, watches, and the server itself."""
