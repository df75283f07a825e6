"""The shapes of Flink's cases, one module per family of topics."""
