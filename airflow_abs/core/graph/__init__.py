"""The declared graph: vertices, edges, pipelined regions, and regions that are joined on the day.

A graph is checked when it is made, so its readers need not check again. It knows no transforms, only names and edges.
"""
