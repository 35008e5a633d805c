"""The composition root: command line, settings, wiring, the process's life. Knows everyone, known by no one."""
