"""The kernel's source as something to tune: regions, edits, and transformations that need no LLM.

May not build, run or search.
"""
