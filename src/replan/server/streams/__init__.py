"""Events as they come, to as many watchers as there are: each is read and encoded once."""
