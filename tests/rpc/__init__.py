"""The service over real gRPC, on the embedded logs."""
