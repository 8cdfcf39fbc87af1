"""`python -m replan.cli`: the command without its script."""

from replan.cli import main

main()
