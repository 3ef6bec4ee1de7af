"""What a run's events said, and nothing else: the state as a fold over them. No clock, process or file."""
