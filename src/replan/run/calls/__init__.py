"""From a step to the outcome of a call: built, limited, made, retried, recorded."""
