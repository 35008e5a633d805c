"""Frameworks: the contract in ``api``, one folder for each backend, found by name through ``catalog``."""
