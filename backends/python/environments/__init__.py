"""Interpreters of models' own: ``EXECUTION_ENV_PATH`` as a folder, a packed archive, or a ``requirements.txt``."""
