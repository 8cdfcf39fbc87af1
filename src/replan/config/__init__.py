"""Settings: small frozen groups, and where each value came from."""

from replan.config.layers import Origin
from replan.config.load import Loaded, load_settings
from replan.config.sections import Settings
from replan.config.show import as_json, as_toml, may_hold_secrets

__all__ = ["Loaded", "Origin", "Settings", "as_json", "as_toml", "load_settings", "may_hold_secrets"]
