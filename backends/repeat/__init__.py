"""Sends the elements of its input one response each, as slowly as the request says."""
