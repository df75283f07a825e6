"""Rules of Flink's that no job uses yet; nothing outside this folder imports it.

    speculation: a second attempt beside a subtask that is far slower than its siblings
        slow_tasks      which subtasks those are (FLIP-168)

Speculative attempts are an issue of their own, which moves what it uses out of here; what it does not use then goes.
"""
