"""What runs in a Python model's own process: frames, slabs, the zygote, the model loop and ``pb_utils``.

It needs numpy and nothing else, imports nothing of ours outside this folder, and imports inside it are relative, so
the folder also works as a copy under another name and another interpreter.
"""
