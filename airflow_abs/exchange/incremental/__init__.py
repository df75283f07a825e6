"""The position of an incremental source: stored, moved by `plan`, confirmed by `commit`. Nothing else may move it."""
