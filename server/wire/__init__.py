"""What the protocol says, whatever carries it: pure functions that every door uses."""
