"""Whole files, ranges, listings and deletions on any file system. Nothing here knows what a run is."""
