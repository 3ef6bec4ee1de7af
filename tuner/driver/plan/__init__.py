"""What comes next, as pure functions of the state: no clock, no randomness but the run's own streams, no process."""
