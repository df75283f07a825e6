"""One module for each command: its arguments, what it calls, its exit code. How things look is in `output/`."""
