"""The protocol over gRPC: `tools.proto`, and the code generated from it."""
