"""The gRPC door: Triton's service ``inference.GRPCInferenceService``, health and reflection, on the serving loop."""
