"""`plan` calls an author's function: its arguments, what it may do meanwhile, which line made which plan.

`compile/` handles the DataFrame that it returns.
"""
