"""`replan scenes` and `replan workflows`: what there is of them, and whether their files are right."""
