"""References and conditions in plans: how they are written, what they point to, and what they come to; in `expressions` the grammar, values, functions and kinds of `${= … }`."""
