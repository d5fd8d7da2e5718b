from .export import export_onnx
from .onnx_model import Completions
from .onnx_pipeline import OnnxCompletionPipeline
from .onnx_text_pipeline import OnnxQuestionAnsweringPipeline, OnnxTextPipeline
from .record import OnnxExport, OnnxTextExport
from .sentence_transformers_folder import write_sentence_transformers

__all__ = [
    "Completions",
    "OnnxCompletionPipeline",
    "OnnxExport",
    "OnnxQuestionAnsweringPipeline",
    "OnnxTextExport",
    "OnnxTextPipeline",
    "export_onnx",
    "write_sentence_transformers",
]
