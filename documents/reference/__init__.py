"""The reference pages in docs/reference, made from what the code itself says; ``make reference`` writes them.

Names, defaults, units, ranges and help texts come from the code. What only a page needs is a table here whose
keys are compared with the code, so that nothing can be missing or outdated.
"""
