"""A stream's scheduler: it waits for slots, runs as one region, restarts from its checkpoint (Flink's FLIP-160).

states          which state it is in, and what leads to another
state_events    events that the states receive, and actions that they return
slots_wanted    how many slots a stream wants, and whether the available ones are enough
rescale         whether a change of parallelism is worth a restart, and which settings follow the slots
phases          when to rescale: cooldown, stabilization, trigger (FLIP-461, FLIP-472)
timers          timers as values, for both
failures        whether a failed query restarts: by strategy, and not forever on the same offsets
supervision     all of it for one streaming query of Spark's
"""
