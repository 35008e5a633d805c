"""gRPC over HTTP/2 on the serving loop: frames, headers, flow control, calls. Knows nothing of inference."""
