"""The stages of a round: tools chosen, planned, evaluated, reflected on, and replanned."""
