"""Losses of masked items for large vocabularies: they look at the items of a batch and at some that are drawn."""
