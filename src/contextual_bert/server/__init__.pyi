from .app import create_app
from .serving import exposure, serve
from .settings import ServerSettings
from .state import ServedPipeline, tried

__all__ = ["ServedPipeline", "ServerSettings", "create_app", "exposure", "serve", "tried"]
