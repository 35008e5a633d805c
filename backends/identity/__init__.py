"""The identity backend: outputs are the inputs. For tests, and to measure what the server itself costs."""
