"""Whole tables, in shards that can be restarted: in one process, or by Ray on several machines."""

from contextual_bert.inference.tables.bulk import BulkSettings, TableCompleter
from contextual_bert.inference.tables.ray_cluster import RayCluster
from contextual_bert.inference.tables.ray_completion import complete_table_on_ray
from contextual_bert.inference.tables.shards import BulkReport, complete_table

__all__ = ["BulkReport", "BulkSettings", "RayCluster", "TableCompleter", "complete_table", "complete_table_on_ray"]
