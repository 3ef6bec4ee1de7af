"""Operators on values and arrays: where they are kept, how many are summed at once, how they are stored."""
