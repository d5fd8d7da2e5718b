from .app import create_app
from .serving import check_can_listen, exposure, serve
from .settings import ServerSettings
from .state import ServedPipeline, tried

__all__ = ["ServedPipeline", "ServerSettings", "check_can_listen", "create_app", "exposure", "serve", "tried"]
