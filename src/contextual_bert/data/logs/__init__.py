"""From a transaction log, which may be larger than the memory, to sets with histories."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
