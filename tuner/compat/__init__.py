"""Other tuners' calls, answered by this one. May not decide anything about a run: writes specs, calls the library."""
