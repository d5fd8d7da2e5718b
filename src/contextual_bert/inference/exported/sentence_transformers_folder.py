"""A model of vectors without a context as the folder that sentence-transformers loads."""

from pathlib import Path
from shutil import rmtree
from typing import Any

from contextual_bert.atomic_files import replacing_directory
from contextual_bert.errors import ConfigurationError
from contextual_bert.inference.texts.embedding_pipeline import EmbeddingPipeline
from contextual_bert.json_text import json_text, read_json_object
from contextual_bert.models.plain_bert import plain_bert
from contextual_bert.places import PathPlace

MODULES = ("Transformer", "Pooling", "Normalize")
MODULES_FILE, TOKENIZER_FILE = "modules.json", "tokenizer_config.json"


def write_sentence_transformers(run: str | Path | EmbeddingPipeline, output: str | Path) -> list[str]:
    """Write a model of vectors as sentence-transformers saves one: a BERT, its pooling, and vectors of length 1.

    Args:
        run: a run directory, or the pipeline of a model that reads no context.
        output: folder to write to, a new one, or one that sentence-transformers loads, which is replaced.

    Returns:
        Sentences on what differs there.

    Raises:
        RunDirectoryError: no such run, or one that learned something else.
        ConfigurationError: the model reads a context, or its blocks are none of BERT's; the folder holds other files.

    Example:
        >>> from contextual_bert.models import ContextualBertConfig, ContextualBertForSentenceEmbedding
        >>> from contextual_bert.testing import miniature_text_processor
        >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
        >>> config = ContextualBertConfig(vocab_size=23, has_position_embeddings=True, **sizes)
        >>> model = ContextualBertForSentenceEmbedding(config)
        >>> write_sentence_transformers(EmbeddingPipeline(model, miniature_text_processor()), "vectors")
        []
    """
    folder = Path(output)
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MODULES_FILE).is_file():
        raise ConfigurationError("holds other files", fix="Give a folder of its own.", place=PathPlace(folder))
    pipeline = run if isinstance(run, EmbeddingPipeline) else EmbeddingPipeline.from_pretrained(run, device="cpu")
    config, tokenizer = pipeline.model.config, pipeline.processor.tokenizer
    bert: Any = plain_bert(pipeline.model.bert)
    pools_mean = config.classifier_pooling == "mean"
    pooling = {
        "word_embedding_dimension": pipeline.size,
        "pooling_mode_cls_token": not pools_mean,
        "pooling_mode_mean_tokens": pools_mean,
    }
    paths = ("", *(f"{number}_{name}" for number, name in enumerate(MODULES[1:], start=1)))
    modules = [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{name}"}
        for number, (path, name) in enumerate(zip(paths, MODULES, strict=True))
    ]
    files: dict[str, Any] = {
        MODULES_FILE: modules,
        "sentence_bert_config.json": {"max_seq_length": pipeline.max_length, "do_lower_case": False},
        "config_sentence_transformers.json": {"similarity_fn_name": "cosine"},
        f"{paths[1]}/config.json": pooling,
    }
    with replacing_directory(folder, last=MODULES_FILE) as made:
        bert.save_pretrained(made)
        tokenizer.save_pretrained(made)
        settings = read_json_object(made / TOKENIZER_FILE)
        settings.pop("processor_class", None)  # that of this package, which the folder does not need
        files[TOKENIZER_FILE] = settings
        for path in paths[1:]:
            (made / path).mkdir()
        for name, content in files.items():
            (made / name).write_text(json_text(content, indent=2) + "\n", encoding="utf-8")
        for path in paths[1:]:  # a folder does not replace another that is not empty
            rmtree(folder / path, ignore_errors=True)
    if pipeline.processor.truncation == "head":
        return []
    return ["longer texts are cut at their ends there, and their middles are read"]
