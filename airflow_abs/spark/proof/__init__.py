"""Proves in `plan` that a transform gives the same rows in parts as on the whole, by asking Spark's own planner.

A subtask runs the whole transform on its own rows. That is right exactly if no operator needs a row that another
subtask has, and no row comes out of several subtasks. Spark knows the first of every operator, because it has the
same question between its own partitions: where rows have to move, it plans an exchange. So each vertex is planned
once on stand-ins for its inputs (`markers`), for which the planner assumes what the exchange provides: a hash
input is partitioned by its keys, a source, a rebalance or a rescale input by nothing, and a broadcast input is small
and in one place. Nothing is run.

The physical plan comes back as text (`explained`), and is walked from the leaves up (`walk`) with what is known of the
rows at each place (`rows`): every subtask has its own, or all of them have the same; and which of them are together.

* An exchange that Spark asks for is refused, unless the rows that it would bring together are together already: Spark
  compares expressions as they are written, while a null-safe or a floating key is the same key in other words.
* Two divided sides of a join must have been hashed by pairs of columns that the join compares. This is checked here and
  not left to Spark, who may have been told of a partitioning by the author's own DISTRIBUTE BY.
* A row of a broadcast input may reach the output only with a row of a divided one: through an inner join, or as the
  side that an outer, semi or anti join does not keep. So may local rows.
* What has no exchange in Spark's plan and is wrong all the same is refused by name: limits, samples, reads of files and
  tables, caches. So is every operator that the table (`operators`) does not know, and text that cannot be read.

What is taken on trust: functions given to mapInPandas, mapInArrow and TRANSFORM treat their rows in any portions (Spark
promises them no more); and ties (row_number() over equal rows, first(), collect_list()) may be broken in another way
than by plain Spark, which does not promise one either.

`airflow_abs.spark.non_repeatable` finds functions whose value is no function of the rows, such as `uuid()`;
`airflow_abs.spark.values` makes them right.
"""

from __future__ import annotations

from airflow_abs.spark.proof.prove import Findings, Proof, UnsplittableError, one_subtask_reason, prove_vertices

__all__ = ["Findings", "Proof", "UnsplittableError", "one_subtask_reason", "prove_vertices"]
