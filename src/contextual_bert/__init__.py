"""contextual-bert: masked language models that know who is asking.

Public names load when they are used. Importing makes transformers' Auto classes know the model, and does nothing else.

Paper: Denk and Peleteiro Ramallo (2020), "Contextual BERT: Conditioning the Language Model Using a Global State".
"""

import lazy_loader

from contextual_bert.models.registration import register_when_imported

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

register_when_imported()
