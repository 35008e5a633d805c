"""From an accepted request to an instance that executes it. Everything here lives on the serving loop."""
