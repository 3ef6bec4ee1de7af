"""Operators on loops: their order, their blocks, their ranges, and how sweeps follow one another."""
