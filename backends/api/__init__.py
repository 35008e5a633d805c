"""The floor: the backend contract and its nouns. Imports numpy and nothing else of ours."""
