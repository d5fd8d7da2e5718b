"""A trained baseline for texts as a model that is saved, loaded and asked like a BERT: ``TextPipeline`` takes both.

How a baseline works is its own file's matter, in ``baselines``. Paper: not there.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, get_args

from pydantic import TypeAdapter
from safetensors.torch import load_file, save_file
from torch import Tensor, device, nn
from transformers.modeling_outputs import TokenClassifierOutput

from contextual_bert.atomic_files import share_files
from contextual_bert.baselines import (
    CHIM,
    UPNN,
    BiGRU,
    BiGRUTagger,
    BiLSTM,
    BiLSTMTagger,
    FastText,
    HiddenMarkovTagger,
    HierarchicalLSTM,
    LabelShares,
    LastStateRNN,
    NgramBag,
    TextCNN,
)
from contextual_bert.baselines.chim import WeighedLayer
from contextual_bert.baselines.hierarchical import SentencePooling
from contextual_bert.baselines.label_model import LabelModel
from contextual_bert.context import FeatureLayout
from contextual_bert.errors import ConfigurationError, RunDirectoryError
from contextual_bert.inference.saved_files import BASELINE_FILE
from contextual_bert.json_text import json_text, read_json_object
from contextual_bert.memory import is_out_of_memory
from contextual_bert.models import (
    ContextualBertForSequenceClassification,
    ContextualBertForTokenClassification,
    ContextualBertProcessor,
)
from contextual_bert.models.bidirectional_lm import BidirectionalLM, BidirectionalLMConfig, ElmoFeatures
from contextual_bert.models.label_heads import OrdinalClassifier
from contextual_bert.models.learned_absence import LearnedAbsence
from contextual_bert.models.tokenization import word_pieces, written_pieces
from contextual_bert.places import PathPlace

WEIGHTS_FILE = "model.safetensors"
_POOLINGS: Mapping[str, SentencePooling] = {
    "nsc": "mean",
    "nsc_la": "attention",
    "nsc_upa": "context",
    "huapa": "features",
}
_WEIGHED: Mapping[str, WeighedLayer] = {f"chim_{layer}": layer for layer in get_args(WeighedLayer)}
FORMAT = "contextual-bert text baseline 1"


@dataclass(frozen=True, kw_only=True)
class TextBaselineConfig:
    """Configuration of a text baseline: its sizes, and what a pipeline reads of a model's config.

    Args:
        name: as ``--conditioning`` has it: popularity, ngrams, fasttext, cnn, rnn, bigru, bilstm or bilstm_crf, with
            ``_context`` or without, nsc, nsc_la or upnn likewise, nsc_upa, huapa, hmm for tags; chim_ with the layer
            that the context weighs.
        labels: their names, in the order of their ids.
        layout: the context's features; empty where none is read.
        has_tags: whether each word gets a label.
        is_ordinal: whether the labels are grades of one scale, the lowest first.
        is_multi_label: whether a text may have several labels.
        number_bins: where the labels are bins of numbers, as in ``ContextualBertConfig``.
        context_dropout, field_dropout, rarely_missing: as in ``ContextualBertConfig``.
        elmo: config of the language model whose vectors are read beside the embeddings of words; None: there are none.

    Example:
        >>> TextBaselineConfig(name="cnn", labels=("bad", "good")).id2label
        {0: 'bad', 1: 'good'}
    """

    name: str
    labels: tuple[str, ...]
    layout: tuple[FeatureLayout, ...] = ()
    has_tags: bool = False
    is_ordinal: bool = False
    is_multi_label: bool = False
    number_bins: list[list[float]] | None = None
    context_dropout: float = 0.0
    field_dropout: float = 0.0
    rarely_missing: tuple[str, ...] | None = None
    elmo: Mapping[str, Any] | None = None
    has_context_as_text: ClassVar[bool] = False
    has_position_embeddings: ClassVar[bool] = False
    max_position_embeddings: ClassVar[int] = 0
    num_separators: ClassVar[int] = 1
    segment_length: ClassVar[None] = None

    @property
    def problem_type(self) -> str:
        """Return how the labels are read, as the models' configs say it."""
        return "multi_label_classification" if self.is_multi_label else "single_label_classification"

    @property
    def id2label(self) -> dict[int, str]:
        """Number -> label."""
        return dict(enumerate(self.labels))

    @property
    def reads_context(self) -> bool:
        """Return True if the context changes the answers."""
        return bool(self.layout)

    @property
    def architectures(self) -> list[str]:
        """The name of the head that it stands in for."""
        head = ContextualBertForTokenClassification if self.has_tags else ContextualBertForSequenceClassification
        return [head.__name__]

    @property
    def conditioning(self) -> str:
        """Return "concat" if the context is read, else "none"."""
        return "concat" if self.layout else "none"


def label_model(config: TextBaselineConfig, tokenizer: Any) -> LabelModel:
    """The untrained baseline, for the ids of a tokenizer.

    Example:
        >>> from contextual_bert.testing import miniature_text_processor
        >>> config = TextBaselineConfig(name="cnn", labels=("bad", "good"))
        >>> type(label_model(config, miniature_text_processor().tokenizer)).__name__
        'TextCNN'
    """
    shared: dict[str, Any] = {
        "num_labels": len(config.labels),
        "layout": config.layout,
        "conditioning": config.conditioning,
    }
    # Of a word that the tokenizer does not know a language model reads the characters.
    read = (tokenizer.unk_token_id,) if config.elmo is not None else ()
    reader: dict[str, Any] = {**shared, "reserved_ids": [id_ for id_ in tokenizer.all_special_ids if id_ not in read]}
    kind = config.name.removesuffix("_context")
    if config.has_tags and kind in ("cnn", "ngrams", "fasttext", "rnn", "upnn", *_POOLINGS, *_WEIGHED):
        raise ConfigurationError(f"{config.name} labels whole texts, and has_tags=True asks for a label a word.")
    if config.is_ordinal and kind == "chim_classifier":
        raise ConfigurationError(
            "chim_classifier weighs a row of weights for each label, and grades of one scale share one row",
            fix="Take chim_embedding, or labels without an order.",
        )
    if kind in ("popularity", "context_popularity"):
        model: LabelModel = LabelShares(**shared, has_several=config.is_multi_label)
    elif kind == "ngrams":
        model = NgramBag(word_pieces(tokenizer), **reader)
    elif kind == "fasttext":
        model = FastText(written_pieces(tokenizer), **reader)
    elif kind == "cnn":
        model = TextCNN(len(tokenizer), **reader)
    elif kind == "upnn":
        model = UPNN(word_pieces(tokenizer), **reader)
    elif kind in _WEIGHED:
        del reader["conditioning"]
        model = CHIM(len(tokenizer), **reader, weighed=_WEIGHED[kind])
    elif kind in _POOLINGS:
        reads_context = _POOLINGS[kind] in ("context", "features")  # in its attention
        reader["conditioning"] = "none" if reads_context else config.conditioning
        model = HierarchicalLSTM(word_pieces(tokenizer), **reader, pooling=_POOLINGS[kind])
    elif kind == "hmm":
        model = HiddenMarkovTagger(len(tokenizer), num_labels=len(config.labels))
    elif kind == "rnn":
        model = LastStateRNN(len(tokenizer), **reader)
    elif kind == "bigru":
        model = BiGRUTagger(len(tokenizer), **shared) if config.has_tags else BiGRU(len(tokenizer), **reader)
    elif config.has_tags:
        model = BiLSTMTagger(len(tokenizer), **shared, has_crf=kind == "bilstm_crf")
    else:
        model = BiLSTM(len(tokenizer), **reader)
    if config.elmo is not None:
        features = ElmoFeatures(BidirectionalLM(BidirectionalLMConfig(**config.elmo)))
        model.read_beside(features, size=features.size)
    if config.is_ordinal and not isinstance(model, LabelShares):
        give_ordinal_head(model)
    return model


def give_ordinal_head(model: LabelModel) -> None:
    """Replace the last layer of a baseline by that of the models for grades that it is compared with."""
    model.head.output = OrdinalClassifier(model.head.output.in_features, model.head.output.out_features)


class TextBaseline(LearnedAbsence, nn.Module):
    """A baseline for texts with its config, in a folder together with its processor.

    Shapes:
        as ``LabelModel``.

    Args:
        config: what it was built from.
        model: what ``label_model`` built.

    Relation to its siblings:
        ``ContextualBertForSequenceClassification`` and ``ContextualBertForTokenClassification`` are what it is compared
        with; ``TextPipeline`` takes any of the three.

    Example:
        >>> from contextual_bert.inference import TextPipeline
        >>> from contextual_bert.testing import miniature_text_processor
        >>> config, processor = TextBaselineConfig(name="cnn", labels=("bad", "good")), miniature_text_processor()
        >>> baseline = TextBaseline(config, label_model(config, processor.tokenizer))
        >>> sorted(TextPipeline(baseline, processor)({"text": "word1 word2"})["probabilities"])
        ['bad', 'good']
    """

    def __init__(self, config: TextBaselineConfig, model: LabelModel) -> None:
        super().__init__()
        self.config, self.model = config, model

    @property
    def device(self) -> device:
        """Return the device of the weights."""
        return next(chain(self.parameters(), self.buffers())).device  # plain label shares have no parameter

    @property
    def crf(self) -> nn.Module | None:
        """The chain of its labels, if they are one."""
        return getattr(self.model, "crf", None)

    def forward(self, input_ids: Tensor, **inputs: Any) -> TokenClassifierOutput:
        """Logits and, with labels, the loss; see ``LabelModel``."""
        found = self.model(input_ids=input_ids, **inputs)
        return TokenClassifierOutput(loss=found.get("loss"), logits=found.get("logits"))

    def save_pretrained(self, folder: str | Path) -> None:
        """Write config and weights; the processor has a ``save_pretrained`` of its own."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        weights = {name: tensor.contiguous() for name, tensor in self.model.state_dict().items()}
        save_file(weights, Path(folder) / WEIGHTS_FILE)
        text = json_text({"format": FORMAT, **asdict(self.config)}, ensure_ascii=False, indent=1)
        (Path(folder) / BASELINE_FILE).write_text(f"{text}\n", encoding="utf-8")
        share_files(Path(folder) / WEIGHTS_FILE)


def load_text_baseline(directory: str | Path) -> tuple[TextBaseline, ContextualBertProcessor]:
    """The baseline of a folder, and its processor.

    Raises:
        RunDirectoryError: a file is missing or damaged, or is of another baseline.
    """
    try:
        content = read_json_object(Path(directory) / BASELINE_FILE)
        if (found := content.pop("format", None)) != FORMAT:
            raise ValueError(f"its format is {found!r}, not {FORMAT!r}.")
        config = TypeAdapter(TextBaselineConfig).validate_python(content)
        processor = ContextualBertProcessor.from_pretrained(directory)
        model = label_model(config, processor.tokenizer)
        model.load_state_dict(load_file(Path(directory) / WEIGHTS_FILE))
    except Exception as error:  # of JSON, of missing keys and files, of weights that do not fit
        if is_out_of_memory(error):
            raise
        raise RunDirectoryError(
            f"cannot be loaded: {error} Its files are damaged or from another version",
            fix="Train again.",
            place=PathPlace(directory),
        ) from error
    return TextBaseline(config, model), processor
