"""Everything that talks to Spark: the only importer of pyspark and grpc.

`plan` compiles and proves (`planning.py`), a subtask sends one operation per step (`run/`), a stream is supervised
(see its folder). Nothing here imports Airflow. Functions import pyspark themselves: triggers need only the protocol.
"""
