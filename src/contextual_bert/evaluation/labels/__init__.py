"""Labels of texts and words: what was predicted and is true, its metrics, its report, several methods side by side.

Here are the rows alone; what is made of them is exported by the package above, on which it rests.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
