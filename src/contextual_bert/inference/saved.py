"""From a folder to the model and the processor that were saved in it; of a folder for something else, what uses it.

It knows no table and no training.
"""

from pathlib import Path
from typing import Any, TypeVar, cast

from torch import nn
from transformers import AutoConfig, PreTrainedModel

from contextual_bert.errors import RunDirectoryError
from contextual_bert.inference.saved_files import check_files, check_holds_model, check_is_folder, holds_baseline
from contextual_bert.inference.text_baseline import TextBaseline, load_text_baseline
from contextual_bert.memory import is_out_of_memory
from contextual_bert.models import (
    ContextualBertForCausalLM,
    ContextualBertForMaskedLM,
    ContextualBertForQuestionAnswering,
    ContextualBertForSentenceEmbedding,
    ContextualBertForSeq2SeqLM,
    ContextualBertForSequenceClassification,
    ContextualBertForTokenClassification,
    ContextualBertProcessor,
    check_processor,
)
from contextual_bert.models.checkpoint_files import first_line, loading_failure
from contextual_bert.places import PathPlace

Model = TypeVar("Model", bound=PreTrainedModel)
LabelsTexts = TypeVar("LabelsTexts", bound=nn.Module)
ITEMS = "ContextualBertForMaskedLM for sets of items"
USED_BY = {
    ITEMS: "CompletionPipeline, or contextual-bert complete",
    ContextualBertForMaskedLM.__name__: "sample_texts, or contextual-bert sample",
    ContextualBertForCausalLM.__name__: "generate_texts, or contextual-bert generate",
    ContextualBertForQuestionAnswering.__name__: "QuestionAnsweringPipeline, or contextual-bert predict --question",
    ContextualBertForSentenceEmbedding.__name__: "EmbeddingPipeline, or contextual-bert embed",
    ContextualBertForSeq2SeqLM.__name__: "TextToTextPipeline, or contextual-bert predict",
    ContextualBertForSequenceClassification.__name__: "TextPipeline, or contextual-bert predict",
    ContextualBertForTokenClassification.__name__: "TextPipeline, or contextual-bert predict",
    TextBaseline.__name__: "TextPipeline, or contextual-bert predict",
}


def load_item_model(directory: str | Path) -> tuple[ContextualBertForMaskedLM, ContextualBertProcessor]:
    """The model of sets of items of a folder, and its processor.

    Raises:
        RunDirectoryError: no such folder, files missing or damaged, or a model of texts.
    """
    found, processor = _content(directory)
    if found in USED_BY and found != ITEMS:
        raise _other_model(directory, found, wanted=ITEMS)
    model, processor = load_saved(directory, ContextualBertForMaskedLM, processor)
    if not processor.is_for_text and len(processor.items) != model.config.vocab_size:
        raise RunDirectoryError(
            f"its tokenizer has {len(processor.items):,} items and its model {model.config.vocab_size:,}",
            fix="Its files do not belong together: copy the folder again, or train again.",
            place=PathPlace(directory, is_subject=False),
        )
    _check_ids(directory, model.config)
    return model, processor


def _check_ids(directory: str | Path, config: Any, *, largest: int = 0) -> None:
    """Raise RunDirectoryError unless reserved ids, and the largest id of a tokenizer, are ids of the model."""
    size = config.vocab_size
    reserved: Any = getattr(config, "reserved_token_ids", ())
    if largest >= size or any(type(number) is not int or not 0 <= number < size for number in reserved):
        raise RunDirectoryError(
            f"its model has ids from 0 to {size - 1:,}, and the tokenizer or reserved_token_ids others",
            fix="Its files do not belong together: copy the folder again, or train again.",
            place=PathPlace(directory, is_subject=False),
        )


def _check_texts(directory: str | Path, tokenizer: Any) -> None:
    """Raise RunDirectoryError unless a tokenizer can lay out texts."""
    lacking = [name for name in ("cls_token", "sep_token", "pad_token") if getattr(tokenizer, f"{name}_id") is None]
    if type(tokenizer.model_max_length) not in (int, float):
        lacking.append("model_max_length")
    if lacking:
        raise RunDirectoryError(
            f"its tokenizer has no {' and no '.join(lacking)}",
            fix="Copy the folder again, or train again.",
            place=PathPlace(directory, is_subject=False),
        )


def load_saved(
    directory: str | Path, model_class: type[Model], processor: ContextualBertProcessor | None = None
) -> tuple[Model, ContextualBertProcessor]:
    """The model of a folder, of this class, and its processor, where that was not loaded before.

    Raises:
        RunDirectoryError: a file is missing or damaged, or the weights are not all and only those of the model.
    """
    try:
        loaded: Any = model_class.from_pretrained(directory, output_loading_info=True)
        processor = processor or ContextualBertProcessor.from_pretrained(directory)
    except Exception as error:  # what is amiss in a file comes as any class, of transformers, tokenizers, safetensors
        if is_out_of_memory(error):
            raise
        raise RunDirectoryError(
            f"cannot be loaded: {loading_failure(error)} Its files are damaged or from another version",
            fix="Train again.",
            place=PathPlace(directory),
        ) from error
    model, found = loaded
    check_weights(directory, found)
    _detach_from_file(model)
    return model, processor


def check_weights(directory: str | Path, found: Any) -> None:
    """Raise RunDirectoryError unless a file has all weights of its model and no others.

    Args:
        directory: where the file lies.
        found: what ``from_pretrained(output_loading_info=True)`` says of it.
    """
    differing = {
        "lacks weights of the model": sorted(found["missing_keys"]),
        "has weights that the model does not": sorted(found["unexpected_keys"]),
        "has weights of another shape": sorted(key for key, *_ in found["mismatched_keys"]),
    }
    for verb, names in differing.items():
        if names:
            raise RunDirectoryError(
                f"{verb}, {', '.join(names[:3])} ({len(names)} in all): its files do not belong together or are from "
                "another version",
                place=PathPlace(directory),
                fix="Train again.",
            )


def bare_model(model: Any) -> Any:
    """The model itself, where it came in what torch.compile or peft put around it.

    Example:
        >>> import torch
        >>> bare_model(torch.compile(nn.Linear(2, 1), backend="eager"))
        Linear(in_features=2, out_features=1, bias=True)
    """
    bare = getattr(model, "_orig_mod", model)
    return bare.get_base_model() if hasattr(bare, "get_base_model") else bare


def _detach_from_file(model: PreTrainedModel) -> None:
    """Give the weights memory of their own.

    They are loaded as a view of the file: whoever writes a new run over it would end the process that uses the old one.
    """
    for tensor in (*model.parameters(), *model.buffers()):
        tensor.data = tensor.data.clone()


def load_text_model(directory: str | Path, *allowed: type[LabelsTexts]) -> tuple[LabelsTexts, ContextualBertProcessor]:
    """The text model of a folder, of one of these classes, and its processor.

    Raises:
        RunDirectoryError: no such folder, files missing or damaged, or a model for something else.
        ConfigurationError: model and processor do not belong together.
    """
    found, loaded_before = _content(directory)
    chosen = [model_class for model_class in allowed if model_class.__name__ == found]
    if not chosen:
        wanted = ", ".join(model_class.__name__ for model_class in allowed)
        raise _other_model(directory, found, wanted=f"{wanted} for texts")
    is_baseline = found == TextBaseline.__name__
    loaded: Any = (
        load_text_baseline(directory) if is_baseline else load_saved(directory, cast(Any, chosen[0]), loaded_before)
    )
    model, processor = loaded
    check_processor(model.config, processor)
    if not is_baseline:
        _check_ids(directory, model.config, largest=max(processor.tokenizer.get_vocab().values(), default=0))
    _check_texts(directory, processor.tokenizer)
    return model, processor


def _other_model(directory: str | Path, found: str, *, wanted: str) -> RunDirectoryError:
    advice = f"Use it with {USED_BY[found]}." if found in USED_BY else "Name another folder."
    kind = " for texts" if found in USED_BY and found != ITEMS else ""
    return RunDirectoryError(f"holds {found}{kind}; what is needed is {wanted}. {advice}", place=PathPlace(directory))


def _content(directory: str | Path) -> tuple[str, ContextualBertProcessor | None]:
    """The name of the model's class, or ITEMS; and the processor, where only that tells the two apart."""
    check_is_folder(directory)
    check_files(directory)
    if holds_baseline(directory):
        return TextBaseline.__name__, None
    check_holds_model(directory)
    try:
        architectures: Any = AutoConfig.from_pretrained(directory, trust_remote_code=False).architectures or [
            "no model"
        ]
        name = architectures[0] if isinstance(architectures, list | tuple) else None
        if not isinstance(name, str):
            raise TypeError(f"config.json has architectures={architectures!r:.80}, which is no list of names")
        if name != ContextualBertForMaskedLM.__name__:
            return name, None
        processor = ContextualBertProcessor.from_pretrained(directory)
        return (name if processor.is_for_text else ITEMS), processor
    except Exception as error:  # see load_saved
        if is_out_of_memory(error):
            raise
        raise RunDirectoryError(
            f"cannot be loaded: {first_line(error)}",
            fix="Save model and processor there with save_pretrained.",
            place=PathPlace(directory),
        ) from error
