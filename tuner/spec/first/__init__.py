"""First specs, written from a kernel's source and from how its host code launches it.

Guesses: what has to be looked at says `check`.
"""
