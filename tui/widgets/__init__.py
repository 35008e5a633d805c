"""Pieces that the dashboard's screens are made of."""
