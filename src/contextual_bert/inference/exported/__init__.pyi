from .export import export_onnx
from .onnx_model import Completions
from .onnx_pipeline import OnnxCompletionPipeline
from .record import OnnxExport

__all__ = ["Completions", "OnnxCompletionPipeline", "OnnxExport", "export_onnx"]
