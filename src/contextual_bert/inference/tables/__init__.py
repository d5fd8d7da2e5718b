"""Whole tables, in shards that can be restarted: in one process, or by Ray on several machines."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
