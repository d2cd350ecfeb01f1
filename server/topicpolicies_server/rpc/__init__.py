"""The gRPC side: messages in and out, one error mapper, the server."""
