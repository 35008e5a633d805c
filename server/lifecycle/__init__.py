"""Models coming and going: states, versions, loading, unloading, readiness."""
