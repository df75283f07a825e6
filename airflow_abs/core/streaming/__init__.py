"""A job that does not end: it waits for slots, runs as one region, restarts from its checkpoint (Flink's FLIP-160).

states          which state it is in, and what leads to another
state_events    what the states are told, and what they ask to be done
slots_wanted    how many slots a stream wants, and what those that it finds are worth
rescale         whether a change of parallelism is worth a restart, and what follows the slots
phases          when it is time for that: cooldown, stabilization, trigger (FLIP-461, FLIP-472)
timers          timers as values, for both
failures        whether a failed query is started again: by strategy, and not for ever on the same offsets
supervision     all of it for one streaming query of Spark's
"""
