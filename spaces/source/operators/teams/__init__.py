"""Loops that a team of OpenMP's threads shares, and what makes that safe."""
