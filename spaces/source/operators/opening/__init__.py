"""What a function's text hides, brought into its tree: bodies of calls, pointers, members, constants."""
