"""Why an item: what each field of a context and each item of a set did, as Shapley values in log-odds."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
