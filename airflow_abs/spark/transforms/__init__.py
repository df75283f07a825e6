"""`plan` calls an author's function: its arguments, what it may do meanwhile, which line made which plan.

What becomes of the DataFrame that it returns is the business of `compile/`.
"""
