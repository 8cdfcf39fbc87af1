"""Models behind a service over gRPC: `GrpcModel` asks one, `serving` puts any model behind one."""
