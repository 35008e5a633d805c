"""Sends its input as many times as the input says."""
