"""Where the seconds of a finished run went: its critical path, its waits for slots, and the sum in one sentence.

It explains what was recorded and predicts nothing; `simulate/` does.
"""
