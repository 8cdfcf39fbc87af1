"""The stages of a round: tools chosen, planned, evaluated, reflected upon, and replanned."""
