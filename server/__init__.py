"""The server: engine, lifecycle, scheduling, repository, observation, and the doors."""
