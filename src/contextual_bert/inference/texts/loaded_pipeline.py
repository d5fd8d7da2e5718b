"""Which pipeline asks the model of a folder about texts: of a run or an export, by what the model gives.

Each is imported where it is the one: exports are asked without torch.
"""

from pathlib import Path
from typing import Any

from contextual_bert import inference
from contextual_bert.errors import ConfigurationError
from contextual_bert.inference.saved_files import FILLING, RECORD_FILE
from contextual_bert.models.truncation import Truncation


def text_pipeline_of(
    directory: Path, *, kind: str | None, device: Any = None, truncation: Truncation | None = None
) -> Any:
    """Return the pipeline of a text model that labels, answers, writes, fills [MASK] or embeds, or of its export.

    Args:
        directory: of the model or export.
        kind: of the task that it learned, see ``learned_kind``; None: of labels, where the folder does not say it.
        device: where to run; None: where the model is.
        truncation: what is kept of longer texts by a model that labels; None: as in training.

    Raises:
        RunDirectoryError: files are missing or damaged.
        ConfigurationError: a device that an export cannot run on.
    """
    is_export = (directory / RECORD_FILE).is_file()
    if kind == "question_answering":
        asking: Any = inference.OnnxQuestionAnsweringPipeline if is_export else inference.QuestionAnsweringPipeline
        return asking.from_pretrained(directory, device=device)
    if kind == "text_to_text" and not is_export:
        return inference.TextToTextPipeline.from_pretrained(directory, device=device)
    if kind in FILLING and not is_export:
        return inference.FillMaskPipeline.from_pretrained(directory, device=device)
    if kind == "contrastive_text" and not is_export:
        return inference.EmbeddingPipeline.from_pretrained(directory, device=device)
    labelling: Any = inference.OnnxTextPipeline if is_export else inference.TextPipeline
    return labelling.from_pretrained(directory, device=device, truncation=truncation)


def fill_with(pipeline: Any, top_k: int) -> None:
    """Let a pipeline give so many words for each [MASK].

    Raises:
        ConfigurationError: it fills none.
    """
    if not hasattr(pipeline, "top_k"):
        raise ConfigurationError("is for runs on hidden words", setting="top_k", value=top_k, fix="Leave it out.")
    pipeline.top_k = top_k
