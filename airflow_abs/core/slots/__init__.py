"""Which subtasks may run now: slots are shared fairly between runs, and a run without resources waits or is refused.

Events in, actions out. The caller reports the clock and the server; nothing here asks for them.
"""
