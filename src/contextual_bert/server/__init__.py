"""Completion of sets over HTTP: the app, what it is set to, and how it is run. Needs the extra ``serve``."""

from contextual_bert.server.app import create_app
from contextual_bert.server.running import exposure, serve
from contextual_bert.server.settings import ServerSettings
from contextual_bert.server.state import Pipeline, tried

__all__ = ["Pipeline", "ServerSettings", "create_app", "exposure", "serve", "tried"]
