"""What every physical operator of Spark does to rows that are distributed to subtasks: one table, closed.

Keys are the names of Spark's classes without ``Exec``. A test compares them with the classes in Spark's own jars: an
operator of another release that is not here is refused, and so is every name that is not here. On servers of other
releases than those jars', only what the corpus shows there is known to be what it is called.
"""

from __future__ import annotations

from enum import Enum, auto

from airflow_abs.spark.connect.abilities import release_number


class Rule(Enum):
    """How an operator's output follows from its inputs."""

    ROW_BY_ROW = auto()  # each row by itself, or Python code that was written for any part of the rows
    GROUPED = auto()  # all rows of a group; Spark puts an exchange below unless the groups are together already
    MAP_IN_PANDAS = auto()  # one of our markers, or the author's function
    LOCAL_ROWS = auto()  # rows that are part of the plan: every subtask has them
    RECURSION = auto()
    EXCHANGE = auto()
    BROADCAST = auto()
    JOIN = auto()
    COGROUP = auto()
    UNION = auto()
    SORT = auto()
    LIMIT = auto()
    SAMPLE = auto()
    SCAN = auto()
    CACHE = auto()
    NUMBERED = auto()  # a number for each row that continues from one Spark partition to the next
    REFUSED = auto()  # commands, streams, writes: nothing that the plan of a transform may hold
    WRAPPER = auto()  # never in a plan by itself, or only with a setting that the proof switches off


_NAMES: dict[Rule, str] = {
    Rule.ROW_BY_ROW: """
        Project Filter Generate Expand CollectMetrics Coalesce ColumnarToRow RowToColumnar
        ArrowEvalPython BatchEvalPython ArrowEvalPythonUDTF BatchEvalPythonUDTF MapInArrow MapPartitions
        MapPartitionsInRWithArrow MapElements DeserializeToObject SerializeFromObject AppendColumns
        AppendColumnsWithObject SparkScriptTransformation
    """,
    Rule.GROUPED: """
        HashAggregate ObjectHashAggregate SortAggregate ArrowAggregatePython Window WindowGroupLimit ArrowWindowPython
        FlatMapGroupsInPandas FlatMapGroupsInArrow FlatMapGroupsInR FlatMapGroupsInRWithArrow MapGroups
        MergingSessions UpdatingSessions
    """,
    Rule.MAP_IN_PANDAS: "MapInPandas",
    Rule.LOCAL_ROWS: "LocalTableScan OneRowRelation Range EmptyRelation",
    Rule.RECURSION: "UnionLoop",
    Rule.EXCHANGE: "ShuffleExchange",
    Rule.BROADCAST: "BroadcastExchange",
    Rule.JOIN: "SortMergeJoin ShuffledHashJoin BroadcastHashJoin BroadcastNestedLoopJoin CartesianProduct",
    Rule.COGROUP: "CoGroup FlatMapCoGroupsInPandas FlatMapCoGroupsInArrow",
    Rule.UNION: "Union",
    Rule.SORT: "Sort",
    Rule.LIMIT: "CollectLimit CollectTail GlobalLimit LocalLimit TakeOrderedAndProject",
    Rule.SAMPLE: "Sample",
    Rule.SCAN: """
        BatchScan FileSourceScan RowDataSourceScan RDDScan ExternalRDDScan ContinuousScan MicroBatchScan
        RealTimeStreamScan PythonWorkerLogs
    """,
    Rule.CACHE: "InMemoryTableScan",
    Rule.NUMBERED: "AttachDistributedSequence",
    Rule.REFUSED: """
        AddCheckConstraint AddPartition AlterNamespaceSetProperties AlterTable AlterV2View
        AlterV2ViewSchemaBinding AlterV2ViewSetProperties AlterV2ViewUnsetProperties AppendData AppendDataExecV1
        AtomicCreateTableAsSelect AtomicReplaceTable AtomicReplaceTableAsSelect CacheTable CacheTableAsSelect
        CloseCursor CommandResult CreateIndex CreateNamespace CreateTable CreateTableAsSelect CreateTableLike
        CreateV2MetricView CreateV2View CreateVariable DataWritingCommand DeclareCursor DeleteFromTable
        DescribeColumn DescribeNamespace DescribeTable DescribeTablePartition DescribeV2View
        DescribeV2ViewColumn DropIndex DropNamespace DropPartition DropTable DropVariable DropView
        EventTimeWatermark ExecutedCommand FetchCursor FlatMapGroupsInPandasWithState FlatMapGroupsWithState
        InsertOnlyMerge MergeRows OpenCursor OverwriteByExpression OverwriteByExpressionExecV1
        OverwritePartitionsDynamic RefreshTable RenamePartition RenameTable RenameV2View ReplaceData
        ReplaceTable ReplaceTableAsSelect SessionWindowStateStoreRestore SessionWindowStateStoreSave
        SetCatalogAndNamespace SetVariable ShowColumns ShowCreateTable ShowCreateV2View ShowFunctions
        ShowPartitions ShowTablePartition ShowTableProperties ShowTables ShowTablesExtended ShowV2ViewColumns
        ShowV2ViewProperties ShowViews StateStoreRestore StateStoreSave StreamingDeduplicate
        StreamingDeduplicateWithinWatermark StreamingGlobalLimit StreamingLocalLimit StreamingRelation
        StreamingSymmetricHashJoin TransformWithState TransformWithStateInPySpark TruncatePartition
        TruncateTable UncacheTable UpdateEventTimeColumn WriteDelta WriteFiles WriteToContinuousDataSource
        WriteToDataSourceV2
    """,
    Rule.WRAPPER: """
        WholeStageCodegen InputAdapter PlanLater AQEShuffleRead AdaptiveSparkPlan BroadcastQueryStage ResultQueryStage
        ShuffleQueryStage TableCacheQueryStage ReusedExchange ReusedSubquery Subquery SubqueryBroadcast
        SubqueryAdaptiveBroadcast package$Debug MultiResult GroupPartitions SkewJoinChildWrapper
        ExplainOnlySparkPlan
    """,
}

_BY_NAME = {name: rule for rule, names in _NAMES.items() for name in names.split()}

# Operators whose name in an explanation is not their class's.
_SHOWN = {
    "Exchange": "ShuffleExchange",
    "Scan OneRowRelation": "OneRowRelation",
    "AggregateInPandas": "ArrowAggregatePython",  # on Spark 4.0
}
_SCANS = ("Scan ", "BatchScan ", "FileScan ")

_READ = (4, 2)
"""The release line whose jars the table is compared with."""
_CORPUS = """
    ArrowAggregatePython, ArrowEvalPython, ArrowEvalPythonUDTF, BroadcastExchange,
    BroadcastHashJoin Inner BuildLeft, BroadcastHashJoin Inner BuildRight, BroadcastHashJoin LeftAnti BuildRight,
    BroadcastHashJoin LeftOuter BuildRight, BroadcastHashJoin LeftSemi BuildRight,
    BroadcastHashJoin RightOuter BuildLeft, BroadcastNestedLoopJoin Cross BuildRight,
    BroadcastNestedLoopJoin Inner BuildRight, CollectLimit, CollectMetrics, Exchange, Expand, Filter,
    FlatMapCoGroupsInArrow, FlatMapCoGroupsInPandas, FlatMapGroupsInArrow, FlatMapGroupsInPandas, Generate,
    HashAggregate, LocalTableScan, MapInArrow, MapInPandas, MergingSessions, ObjectHashAggregate, Project, Range,
    Scan parquet, Sort, SortAggregate, SortMergeJoin FullOuter, SortMergeJoin Inner, SortMergeJoin LeftAnti,
    SortMergeJoin LeftOuter, SortMergeJoin LeftSemi, SortMergeJoin RightOuter, Union, Window, WindowGroupLimit
"""
_OF_CORPUS = frozenset(name.strip() for name in _CORPUS.split(","))
"""As Spark shows them: what the corpus' sample shows on 4.2."""
_BEFORE_ARROW = frozenset({"BatchEvalPython", "BatchEvalPythonUDTF"})
"""What else it shows on older releases, which send rows to Python functions without Arrow."""
_BEFORE_4_1 = frozenset({"AggregateInPandas"})


def rule_of(shown: str) -> Rule:
    """The rule of an operator by the name that Spark shows; `REFUSED` for one that is not in the table."""
    name = _SHOWN.get(shown, shown)
    if name in _BY_NAME:
        return _BY_NAME[name]
    if _BY_NAME.get(name.split(" ")[0]) is Rule.JOIN:  # "SortMergeJoin LeftOuter"
        return Rule.JOIN
    return Rule.SCAN if name.startswith(_SCANS) else Rule.REFUSED


def known_operators() -> frozenset[str]:
    """Every operator that the table has, by class name without ``Exec``."""
    return frozenset(_BY_NAME)


def tried_operators(release: str) -> frozenset[str]:
    """By the names that Spark shows: those that the corpus' sample tries on a release of Spark ("4.1.4")."""
    line = release_number(release)[:2]
    older = (_BEFORE_ARROW if line < _READ else frozenset()) | (_BEFORE_4_1 if line < (4, 1) else frozenset())
    return _OF_CORPUS | older


def all_are_known(release: str) -> bool:
    """Whether the table holds for every operator of this release of Spark ("4.2.1"), tried or not."""
    return release_number(release)[:2] == _READ
