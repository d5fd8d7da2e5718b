"""Exported models of texts: the queries and answers of the run's pipelines, computed by onnxruntime.

It imports no torch and no transformers. The folder of ``export_onnx`` is all that is needed.
"""

from pathlib import Path
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from contextual_bert.errors import RunDirectoryError
from contextual_bert.inference.exported.exported_folder import check_cpu, loading, read_record
from contextual_bert.inference.exported.exported_text_processor import ExportedTextProcessor
from contextual_bert.inference.exported.onnx_text_model import TEXT_FILE, ExportedTextConfig, OnnxTextModel
from contextual_bert.inference.exported.origin import origin_notes
from contextual_bert.inference.exported.record import OnnxTextExport, TextKind
from contextual_bert.inference.saved_files import RECORD_FILE, trained_pairs
from contextual_bert.inference.texts.answer_spans import MAX_ANSWER_TOKENS
from contextual_bert.inference.texts.base_question_answering import BaseQuestionAnsweringPipeline
from contextual_bert.inference.texts.base_text_pipeline import BaseTextPipeline
from contextual_bert.inference.texts.text_rows import TextBatch
from contextual_bert.models.truncation import Truncation
from contextual_bert.places import PathPlace

OTHER_WEIGHTS = "other weights or settings"
NO_EXPLANATIONS = "An export of texts is for answers alone: take the run itself for explanations."


class OnnxTextPipeline(BaseTextPipeline):
    """Labels texts, or the words of texts, with an exported model.

    Args:
        directory: what ``export_onnx`` wrote.
        num_threads: that one call uses.
        truncation: what is kept of a text that is too long; None: as in training.

    Raises:
        RunDirectoryError: no such folder, a file of it is missing or damaged, or a model of another kind.
        ConfigurationError: the extra ``onnxruntime`` is not installed.

    Relation to its siblings:
        The same queries, tables and answers as ``TextPipeline``. torch and transformers are not imported.

    Example:
        >>> from contextual_bert.inference import TextPipeline, export_onnx
        >>> from contextual_bert.models import ContextualBertConfig, ContextualBertForSequenceClassification
        >>> from contextual_bert.testing import miniature_text_processor
        >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
        >>> config = ContextualBertConfig(vocab_size=23, id2label={0: "bad", 1: "good"}, **sizes)
        >>> trained = TextPipeline(ContextualBertForSequenceClassification(config), miniature_text_processor())
        >>> _ = export_onnx(trained, "labels")
        >>> sorted(OnnxTextPipeline("labels")({"text": "word1 word2"})["probabilities"])
        ['bad', 'good']
    """

    no_logits = NO_EXPLANATIONS

    def __init__(self, directory: str | Path, *, num_threads: int = 1, truncation: Truncation | None = None) -> None:
        self.directory = Path(directory)
        self.record, self.exported, processor = _loaded(
            self.directory, ("classification", "tagging"), num_threads=num_threads
        )
        has_tags, pair = self.record["kind"] == "tagging", trained_pairs(self.directory)
        super().__init__(self.exported, processor, has_tags=has_tags, truncation=truncation, pair=pair)
        self.origin_notes = origin_notes(self.directory, self.record, difference=lambda _: OTHER_WEIGHTS)

    @classmethod
    def from_pretrained(
        cls, directory: str | Path, *, device: str | None = None, truncation: Truncation | None = None
    ) -> Self:
        """The pipeline of an export's folder.

        Raises:
            ConfigurationError: a device other than the CPU.
        """
        check_cpu(device)
        return cls(directory, truncation=truncation)

    def logits(self, batch: TextBatch) -> NDArray[np.float32]:
        return self.exported(batch)


class OnnxQuestionAnsweringPipeline(BaseQuestionAnsweringPipeline):
    """Finds the answers to questions in texts with an exported model.

    Args:
        directory: what ``export_onnx`` wrote.
        num_threads: that one call uses.
        max_answer_tokens: an answer has so many tokens at most.

    Raises:
        RunDirectoryError: no such folder, a file of it is missing or damaged, or a model of another kind.
        ConfigurationError: the extra ``onnxruntime`` is not installed.

    Relation to its siblings:
        The same queries, tables and answers as ``QuestionAnsweringPipeline``. torch and transformers are not imported.

    Example:
        >>> from contextual_bert.inference import QuestionAnsweringPipeline, export_onnx
        >>> from contextual_bert.models import ContextualBertConfig, ContextualBertForQuestionAnswering
        >>> from contextual_bert.testing import miniature_text_processor
        >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
        >>> model = ContextualBertForQuestionAnswering(ContextualBertConfig(vocab_size=23, type_vocab_size=2, **sizes))
        >>> _ = export_onnx(QuestionAnsweringPipeline(model, miniature_text_processor()), "answers")
        >>> pipeline = OnnxQuestionAnsweringPipeline("answers", max_answer_tokens=1)
        >>> pipeline({"question": "word1", "text": "word2 word3"})["answer"] in ("word2", "word3")
        True
    """

    def __init__(
        self, directory: str | Path, *, num_threads: int = 1, max_answer_tokens: int = MAX_ANSWER_TOKENS
    ) -> None:
        self.directory = Path(directory)
        self.record, self.exported, processor = _loaded(
            self.directory, ("question_answering",), num_threads=num_threads
        )
        super().__init__(self.exported, processor, max_answer_tokens=max_answer_tokens)
        self.origin_notes = origin_notes(self.directory, self.record, difference=lambda _: OTHER_WEIGHTS)

    @classmethod
    def from_pretrained(cls, directory: str | Path, *, device: str | None = None) -> Self:
        """The pipeline of an export's folder.

        Raises:
            ConfigurationError: a device other than the CPU.
        """
        check_cpu(device)
        return cls(directory)

    def log_shares(self, batch: TextBatch) -> NDArray[np.float32]:
        return self.exported(batch)


def _loaded(
    directory: Path, kinds: tuple[TextKind, ...], *, num_threads: int
) -> tuple[OnnxTextExport, OnnxTextModel, ExportedTextProcessor]:
    """Return the record, the graphs and the processor of an export of one of these kinds."""
    record = cast(OnnxTextExport, read_record(directory, graph=TEXT_FILE))
    kind: Any = record.get("kind")
    if kind not in kinds:
        raise RunDirectoryError(
            f"has kind={kind!r:.40}; what is needed is {' or '.join(kinds)}. Ask it with contextual-bert predict, or "
            "export the run again.",
            place=PathPlace(directory / RECORD_FILE),
        )
    config = ExportedTextConfig.from_pretrained(directory)
    with loading(directory):
        processor = ExportedTextProcessor.from_pretrained(directory)
        return record, OnnxTextModel(directory, config, num_threads=num_threads), processor
