"""Limits of an inferred schema, and their defaults. Imports nothing, for the sake of ``--help``."""

MAX_CATEGORIES = 1000  # of a column, with a vector of their own
MIN_CUSTOMERS = 10  # with fewer a value, or a cell of a report, may be about single people
MAX_BUCKETS = 1 << 20
