"""Delta Lake through the library deltalake: what a version holds, how Spark reads it without a jar, and a new one."""
