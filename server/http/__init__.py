"""The HTTP door: Triton's REST protocol on the serving loop."""
