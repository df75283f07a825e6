"""Rules of Flink's that no job uses yet; nothing outside this folder imports it.

    a streaming job: it waits for slots, runs, is rescaled as slots come and go, restarts (FLIP-160)
        states          which state it is in, and what leads to another
        state_events    what the states are told, and what they ask to be done
        phases          when changed slots are worth a rescale: cooldown, stabilization, trigger (FLIP-461, FLIP-472)
        rescale         whether a change of parallelism is large enough for one
        slots           the parallelism of every vertex that the free slots allow
        timers          timers as values, for all of these
    speculation: a second attempt beside a subtask that is far slower than its siblings
        slow_tasks      which subtasks those are (FLIP-168)

Streaming jobs and speculative attempts are issues of their own. Whichever comes moves what it uses out of here; what
none of them uses then goes.
"""
