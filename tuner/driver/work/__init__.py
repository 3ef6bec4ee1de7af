"""Does what the plan calls for, and commits what came of it."""
