from .app import create_app
from .serving import check_address, exposure, serve
from .settings import ServerSettings
from .state import ServedPipeline, tried

__all__ = ["ServedPipeline", "ServerSettings", "check_address", "create_app", "exposure", "serve", "tried"]
