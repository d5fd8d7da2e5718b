"""Studies behind the published tables. Each is a module with a command: ``python -m studies.NAME --help``."""
