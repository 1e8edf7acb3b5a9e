"""Settings as data: one typed model, where its values come from, and the files that pin what is started."""

from config.load import ConfigError, load, show
from config.model import Settings

__all__ = ["ConfigError", "Settings", "load", "show"]
