"""The operator's door: metrics, health, statistics, the index, load and unload, on a port of its own."""
