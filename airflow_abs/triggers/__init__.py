"""Airflow's triggers: what the triggerer is given for a decision, a subtask or a stream, as plain values.

A trigger makes what `execution/` runs from its values, and yields the event that ends the task. It decides nothing.
Airflow stores triggers under the names of their classes here: a module that moves loses those that wait.
"""
