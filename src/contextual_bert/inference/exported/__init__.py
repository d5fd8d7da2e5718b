"""Models as ONNX: the two graphs, their files, and the pipeline that runs them without PyTorch."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
