from .app import create_app
from .serving import check_can_listen, exposure, serve
from .settings import ServerSettings
from .state import ServedPipeline, ServedTextPipeline, is_for_texts, tried
from .workers import check_can_fork, serve_with_workers, with_one_thread, workers_remark

__all__ = [
    "ServedPipeline",
    "ServedTextPipeline",
    "ServerSettings",
    "check_can_fork",
    "check_can_listen",
    "create_app",
    "exposure",
    "is_for_texts",
    "serve",
    "serve_with_workers",
    "tried",
    "with_one_thread",
    "workers_remark",
]
