"""One Spark Connect server and one operation: endpoint, calls, abilities, errors, sessions, slots.

Nothing here knows jobs, regions or the exchange. Only `session.py` may load pyspark; everything else uses the generated
protocol, which the triggerer can afford.
"""
