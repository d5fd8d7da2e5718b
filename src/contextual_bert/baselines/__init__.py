"""Baselines: what users deploy without BERT, and what papers compare with. One file each."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
