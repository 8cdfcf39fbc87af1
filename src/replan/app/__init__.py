"""The library: `Replan` puts the parts together and is what programs and the command use."""

from replan.app.arguments import Arguments
from replan.app.replan import Replan
from replan.app.sync import run_sync

__all__ = ["Arguments", "Replan", "run_sync"]
