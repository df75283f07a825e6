"""`@task.adaptive_spark` and `@task.adaptive_spark_stream`: a function becomes the operator of the same name.

What an operator accepts or refuses is in `operators/`.
"""
