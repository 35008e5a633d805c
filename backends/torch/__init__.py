"""The PyTorch backend. Importing this package does not import torch; ``backend.py`` does."""
