"""Bytes in, subtasks out: how many subtasks a region gets, which ranges and files each reads, and why in words.

`decide_region` is the entry. Sizes come in as numbers; nothing here lists files or knows where they are.
"""
