"""One call, tried until it has an outcome: made, retried after a passing fault, recorded.

Before a call with an effect is made, its start is on disk; before any call, so are the results that it
depends on. Whether a fault may be retried is decided by its kind and the tool's effect (`core.failures.faults`).
"""

from replan.run.calls.attempts.asking import TELL_SECS
from replan.run.calls.attempts.attempts import Attempts
from replan.run.calls.attempts.elsewhere import MeantOnceMore

__all__ = ["TELL_SECS", "Attempts", "MeantOnceMore"]
