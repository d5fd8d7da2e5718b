"""The context: who is asking. Raw values -> ids -> one vector a row; knows nothing of BERT. Paper: section 4."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
