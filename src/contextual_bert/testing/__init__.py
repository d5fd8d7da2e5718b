"""The contracts that every conditioning method keeps, for methods defined elsewhere too.

``check_method("my_method")`` runs them all for a registered method; each ``check_*`` is one of them. They raise
AssertionError and need no test framework. What they do not cover is whether a method is any good: that takes data.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
