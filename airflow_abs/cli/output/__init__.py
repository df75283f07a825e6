"""How commands look on a terminal: tables, graphs, progress. Values come in, text goes out; nothing is read."""
