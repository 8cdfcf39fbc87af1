"""How well tasks are finished when something in them goes wrong, beside other frameworks."""
