"""One subtask on Spark: bind its slice to the plan template, execute, measure, report; recompute inputs that were lost.

No user code runs in this process: `plan` has compiled the template. Every process of a try sends the same requests.
"""
