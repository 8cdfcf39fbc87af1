"""Plans that wait for a person's yes: what each would do, and what is made of the answer."""
