"""What a kernel's sources say: signatures, structures, macros, what indices come to.

Knows texts and syntax trees. May not know what a spec says.
"""
