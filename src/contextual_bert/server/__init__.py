"""Completion of sets over HTTP: the app, what it is set to, and how it is run. Needs the extra ``serve``."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
