"""The API without a client of this project: generated stubs with gRPC's own service config, and a tool that knows the reflection."""
