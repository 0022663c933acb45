"""Pieces that several methods share. Each is a small file; a method imports the ones it needs."""
