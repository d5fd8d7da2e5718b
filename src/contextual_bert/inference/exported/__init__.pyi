from .export import OnnxExport, export_onnx
from .onnx_model import Completions
from .onnx_pipeline import OnnxCompletionPipeline

__all__ = ["Completions", "OnnxCompletionPipeline", "OnnxExport", "export_onnx"]
