"""The protocol: `replan/v1/replan.proto`, and the code generated from it."""
