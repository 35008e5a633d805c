"""Fails while it starts."""


class TritonPythonModel:
    def initialize(self, args):
        raise RuntimeError("boom from initialize")

    def execute(self, requests):
        return []
