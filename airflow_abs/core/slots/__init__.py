"""Which subtasks may run now: slots are shared fairly between runs, and a run without resources waits or is refused.

Events in, actions out. Whoever has a clock and a server reports both; nothing here asks for them.
"""
