from .app import create_app
from .serving import exposure, serve
from .settings import ServerSettings
from .state import Pipeline, tried

__all__ = ["Pipeline", "ServerSettings", "create_app", "exposure", "serve", "tried"]
