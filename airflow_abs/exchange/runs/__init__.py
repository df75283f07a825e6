"""A run read back from its folder: explained, replayed, listed, cleaned. Only cleaning changes anything."""
