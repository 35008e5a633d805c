"""The ONNX Runtime backend. Importing this package does not import the runtime; ``backend.py`` does."""
