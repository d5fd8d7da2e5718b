"""Models as ONNX: the two graphs, their files, and the pipeline that runs them without PyTorch."""

from contextual_bert.inference.exported.export import OnnxExport, export_onnx
from contextual_bert.inference.exported.onnx_model import Completions
from contextual_bert.inference.exported.onnx_pipeline import OnnxCompletionPipeline

__all__ = ["Completions", "OnnxCompletionPipeline", "OnnxExport", "export_onnx"]
