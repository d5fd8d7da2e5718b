"""Architectures of transformers that a model can start from: one a file, none of which knows a method."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
