"""The command ``contextual-bert``: parse, call the library, print. Apart from it, so that --help takes no seconds."""
