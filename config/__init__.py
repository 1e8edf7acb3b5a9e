"""Settings: one typed model, its sources, and the pinned jars.

For: defaults, limits, and errors that name the setting. May enter: TOML, the environment, flags. Must not know: who
uses a setting, and any other package.
"""

from config.load import ConfigError, load, show
from config.model import Settings

__all__ = ["ConfigError", "Settings", "load", "show"]
