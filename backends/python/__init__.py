"""The Python backend: one worker process per model instance, reached from the serving loop by frames."""
