"""Numbers: pure functions of ranks and probabilities, with intervals, reports and pictures. No model is known here."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
