"""Rules of Flink's that no job uses yet; nothing outside this folder imports it.

    a streaming job that is rescaled as slots come and go (its states, and when that is due, are in `core/streaming`)
        rescale         whether a change of parallelism is large enough for one
        slots           the parallelism of every vertex that the free slots allow
    speculation: a second attempt beside a subtask that is far slower than its siblings
        slow_tasks      which subtasks those are (FLIP-168)

Rescaling and speculative attempts are issues of their own. Whichever comes moves what it uses out of here; what
none of them uses then goes.
"""
