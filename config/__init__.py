"""Settings: one typed model, its sources, and the pinned jars.

For: defaults, limits, errors that name the setting, and printing. May enter: TOML, the environment, flags. Must not
know: who uses a setting, and any other package.
"""

from config.load import ConfigError, SourcedSettings, load, load_with_sources, show, unused
from config.model import Settings
from config.toml import as_toml

__all__ = ["ConfigError", "Settings", "SourcedSettings", "as_toml", "load", "load_with_sources", "show", "unused"]
