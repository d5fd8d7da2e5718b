from .bulk import BulkSettings, TableCompleter
from .ray_cluster import RayCluster
from .ray_completion import complete_table_on_ray
from .ray_predictions import predict_table_on_ray
from .set_shards import complete_table
from .shards import BulkReport
from .text_tables import PredictionSettings, TablePredictor, predict_table

__all__ = [
    "BulkReport",
    "BulkSettings",
    "PredictionSettings",
    "RayCluster",
    "TableCompleter",
    "TablePredictor",
    "complete_table",
    "complete_table_on_ray",
    "predict_table",
    "predict_table_on_ray",
]
