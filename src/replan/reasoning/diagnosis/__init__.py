"""Why a step or a round has failed, and what a model proposes to do about it."""
