"""What runs eager PyTorch in a worker process of the Python backend, and what both sides of it share.

It needs torch and numpy, imports nothing of ours outside this folder but the worker's own ``pb_utils``, and imports
inside it are relative.
"""
