from .bulk import BulkSettings, TableCompleter
from .ray_cluster import RayCluster
from .ray_completion import complete_table_on_ray
from .shards import BulkReport, complete_table

__all__ = ["BulkReport", "BulkSettings", "RayCluster", "TableCompleter", "complete_table", "complete_table_on_ray"]
