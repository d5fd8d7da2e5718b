"""From files to batches: reading sets, splitting them without leaks, and masking whole batches at once."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
