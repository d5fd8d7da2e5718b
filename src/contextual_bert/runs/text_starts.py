"""Start of a run on texts: a BERT checkpoint, an earlier run with a context, or the words of the training texts.

A word that fewer than ``min_customers`` customers wrote is [UNK]: the vocabulary is saved with the run, and it is to
hold nothing of single persons (docs/decisions/024-values-of-single-customers.md).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import NFC, BertNormalizer
from tokenizers.normalizers import Sequence as Normalizers
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import BertProcessing
from transformers import PreTrainedTokenizerFast

from contextual_bert.baselines.names import CONTEXT_AS_TEXT
from contextual_bert.context import ContextSchema
from contextual_bert.context.infer import numbers_of_customers
from contextual_bert.data import Split
from contextual_bert.errors import NAME, CheckpointError, ConfigurationError, Message, joined
from contextual_bert.manifest import check_manifest
from contextual_bert.models import (
    ContextFeatureExtractor,
    ContextualBertForSequenceClassification,
    ContextualBertProcessor,
)
from contextual_bert.models.checkpoint_files import first_line, has_masked_lm_head, label_names_of, weight_shapes
from contextual_bert.models.warm_start import context_config
from contextual_bert.nouns import counted
from contextual_bert.places import PathPlace
from contextual_bert.runs.label_names import some_labels
from contextual_bert.runs.prepared_data import num_trained_by
from contextual_bert.runs.run_directory import SCORES_FILE, check_text_start
from contextual_bert.runs.run_schema import check_brought, customers_in
from contextual_bert.runs.text_data import TextData
from contextual_bert.training.recipe import Recipe

BERT_TOKENS = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
SPECIAL_TOKENS = tuple(BERT_TOKENS.values())
MOST_TOKENS = 512  # of a text, as BERT reads
MOST_WORDS = 50_000
_MANY_UNKNOWN, _ALL_UNKNOWN = 0.1, 0.95  # of the tokens of a part
LONGEST_WORD = 100  # letters; longer ones are [UNK], as BERT's tokenizer has it

CLASSIFIER = "classifier.weight"
NO_MASKED_LM_HEAD = Message(
    " has no head for hidden words: the weights cls.predictions.* are missing, and start at random. Only the decoder "
    "is known, for it is tied to the token embeddings. Until the head is learned, the pseudo-perplexity is that of the "
    "head, not of the BERT. Give a checkpoint with such a head, for example bert-base-uncased. Or train 10 epochs or "
    "more, until the validation cross-entropy no longer falls: {num_train_epochs} {mask_rate} "
    "{new_weights_learning_rate}.",
    num_train_epochs=10,
    mask_rate=0.4,
    new_weights_learning_rate=0.001,
)


def split_words(text: str, *, is_cased: bool = False) -> list[str]:
    """Return the words of a text: accents kept, each punctuation mark a word of its own.

    Args:
        text: any.
        is_cased: keep capitals.

    Example:
        >>> split_words("Sehr schön, gern!")
        ['sehr', 'schön', ',', 'gern', '!']
    """
    normalizer, splitter = _preparation(is_cased=is_cased)
    return [word for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(text))]


def frequent_words(
    texts: Iterable[str], *, min_customers: int, customers: NDArray[np.int64] | None = None
) -> list[str]:
    """Return the words of texts that enough customers wrote, the most frequent first, at most ``MOST_WORDS``.

    Args:
        texts: of the training part.
        min_customers: the fewest customers of a word.
        customers: (texts,) number of the customer of each text; None: each text is one of its own.

    Example:
        >>> frequent_words(["Red coat", "red hat", "a red scarf"], min_customers=2)
        ['red']
        >>> frequent_words(["Red coat", "red hat"], min_customers=2, customers=np.array([7, 7]))
        []
    """
    found = customers_of_words([{*split_words(text)} for text in texts], customers)
    counts = {word: number for word, number in found.items() if len(word) <= LONGEST_WORD}
    kept = [word for word, count in counts.items() if count >= min_customers and word not in SPECIAL_TOKENS]
    return sorted(kept, key=lambda word: (-counts[word], word))[:MOST_WORDS]


def customers_of_words(rows: Sequence[set[str]], customers: NDArray[np.int64] | None) -> Counter[str]:
    """Return how many customers wrote each word.

    Args:
        rows: the words of each text.
        customers: (texts,) number of the customer of each text; None: each text is one of its own.

    Example:
        >>> customers_of_words([{"red"}, {"red", "hat"}], np.array([7, 7]))["red"]
        1
    """
    if customers is not None:
        of_customers: dict[int, set[str]] = {}
        for customer, words in zip(customers.tolist(), rows, strict=True):
            of_customers.setdefault(customer, set()).update(words)
        rows = list(of_customers.values())
    return Counter(word for words in rows for word in words)


def word_tokenizer(
    words: Sequence[str],
    *,
    max_length: int = MOST_TOKENS,
    roles: Mapping[str, str] = BERT_TOKENS,
    is_cased: bool = False,
) -> PreTrainedTokenizerFast:
    """Return a tokenizer whose tokens are whole words; each other word is the unknown one.

    Args:
        words: as ``split_words`` spells them, each once.
        max_length: tokens of a text, its start and end included.
        roles: what stands for "pad", "unk", "cls", "sep"; each name has one id, in their order, before the words.
        is_cased: keep capitals.

    Example:
        >>> tokenizer = word_tokenizer(["red", "coat"])
        >>> tokenizer.convert_ids_to_tokens(tokenizer("A red COAT").input_ids)
        ['[CLS]', '[UNK]', 'red', 'coat', '[SEP]']
    """
    ids = {word: number for number, word in enumerate((*dict.fromkeys(roles.values()), *words))}
    first, last, unknown = roles["cls"], roles["sep"], roles["unk"]
    backend: Any = Tokenizer(WordPiece(ids, unk_token=unknown, max_input_chars_per_word=LONGEST_WORD))
    backend.normalizer, backend.pre_tokenizer = _preparation(is_cased=is_cased)
    backend.post_processor = BertProcessing((last, ids[last]), (first, ids[first]))
    names = {f"{role}_token": name for role, name in roles.items()}
    return PreTrainedTokenizerFast(tokenizer_object=backend, model_max_length=max_length, **names)


def processor_of_words(
    columns: Sequence[pa.ChunkedArray],
    schema: ContextSchema | None,
    *,
    min_customers: int,
    customers: NDArray[np.int64] | None = None,
) -> ContextualBertProcessor:
    """Return a processor whose tokens are the frequent words of training texts.

    Args:
        columns: the texts, or lists of words, and second texts.
        schema: the features of the context.
        min_customers: the fewest customers of a word.
        customers: (texts,) number of the customer of each text; None: each text is one of its own.
    """
    texts = [" ".join(map(_text, cells)) for cells in zip(*(each.to_pylist() for each in columns), strict=True)]
    words = frequent_words(texts, min_customers=min_customers, customers=customers)
    extractor = ContextFeatureExtractor(schema.to_dict() if schema is not None else None)
    return ContextualBertProcessor(extractor, word_tokenizer(words))


def _text(cell: str | Sequence[str | None]) -> str:
    """Return a text, or the words of a list as one. A word that is missing is found when the list is encoded."""
    return cell if isinstance(cell, str) else " ".join(filter(None, cell))


@cache
def _preparation(*, is_cased: bool) -> tuple[Any, Any]:
    """Return how a text is normalised and how it is cut into words."""
    # Letters keep their accents: "schon" and "schön" are two words.
    return Normalizers([NFC(), BertNormalizer(lowercase=not is_cased, strip_accents=False)]), BertPreTokenizer()


def checkpoint_method(checkpoint: str | None) -> str | None:
    """The method, as recipes name it, of the model with a context that is gone on from; None where it is a BERT.

    Args:
        checkpoint: folder or name on the Hub; None for a run that starts from none.
    """
    found = context_config(checkpoint) if checkpoint is not None else None
    if found is None:
        return None
    return CONTEXT_AS_TEXT if found.has_context_as_text else found.conditioning


def reader_of(recipe: Recipe) -> ContextualBertProcessor | None:
    """The processor of the model with a context that a recipe goes on from; None where it starts from a BERT, or from
    no checkpoint.

    Raises:
        RunDirectoryError: an interrupted run, or one whose weights were not kept.
        CheckpointError: a run on sets, or of a baseline; its processor cannot be read.
        ConfigurationError: the recipe asks for other features, draws all weights, or learns what the run reads.
    """
    task = recipe.text_task
    if task.checkpoint is None:
        return None
    folder = Path(task.checkpoint)
    check_manifest(folder)
    check_text_start(folder)
    if (config := context_config(task.checkpoint)) is None:
        return None
    if task.is_from_scratch:
        raise ConfigurationError(
            Message(
                f"{task.checkpoint} has a context already, and {{is_from_scratch}} takes the sizes of a BERT",
                is_from_scratch=NAME,
            ),
            fix="Name that BERT, or leave it out.",
        )
    try:
        processor = ContextualBertProcessor.from_pretrained(task.checkpoint).with_context_as("values")
    except Exception as error:  # see load_saved
        raise CheckpointError(
            f"its processor cannot be read ({first_line(error)})",
            fix="Give the folder of a whole run, with processor_config.json and tokenizer.json.",
            place=PathPlace(task.checkpoint, is_subject=False),
        ) from error
    schema = processor.schema
    if recipe.exclude:
        raise ConfigurationError(
            f"says what of the table is no context, and {task.checkpoint} brings the features",
            setting="exclude",
            value=recipe.exclude,
            fix="Leave it out.",
        )
    check_brought(schema, recipe, run=task.checkpoint)
    processor.tokenizer.model_max_length = config.max_position_embeddings  # not what that run was cut to
    return processor


def seen_lines(checkpoint: str | None, split: Split, part: str) -> list[str]:
    """A warning where the run that is gone on from was trained on rows that are to be evaluated now.

    Args:
        checkpoint: folder or name on the Hub; None for a run that starts from none.
        split: of the new run.
        part: what is evaluated.
    """
    if checkpoint is None:
        return []
    path = Path(checkpoint) / "split.json"
    seen = num_trained_by(Split.load(path), split, part) if path.is_file() else 0
    if not seen:
        return []
    rows = f"{seen:,} of the {len(split.rows(part)):,} rows of the {part} part"
    return [f"leak: {checkpoint} was trained on {rows}. Give its split: --split {path}"]


def head_lines(checkpoint: str, *, head: str, labels: Sequence[str], reads_pooler: bool) -> list[str]:
    """Return a sentence on each weight that starts at random although a user may take it for trained.

    Args:
        checkpoint: folder or name on the Hub.
        head: kind of the task.
        labels: names of the labels in the order of their ids; none where there are none.
        reads_pooler: True where the label is read through BERT's pooler.
    """
    if head == "masked_text":
        try:
            has_head = has_masked_lm_head(checkpoint)
        except CheckpointError:
            return []  # building a model says what is amiss; a report of a finished study needs no weights
        return [] if has_head else [joined(f"warning: {checkpoint}", NO_MASKED_LM_HEAD)]
    shapes = weight_shapes(checkpoint, ContextualBertForSequenceClassification.head_parts)
    if shapes is None:
        return []
    lines: list[str] = []
    if labels and CLASSIFIER in shapes:
        theirs = label_names_of(checkpoint)
        is_kept = shapes[CLASSIFIER][0] == len(labels) and context_config(checkpoint) is None
        if theirs != tuple(labels):
            start = "It starts from that head, whatever its labels meant" if is_kept else "Its own starts at random"
            lines.append(
                f"warning: {checkpoint} has a head for the labels {some_labels(theirs)}. This run learns "
                f"{some_labels(labels)}. {start}, and it is learned here."
            )
    if reads_pooler and not any(name.endswith("pooler.dense.weight") for name in shapes):
        lines.append(
            Message(
                f"warning: {checkpoint} has no pooler, through which the label is read: the weights bert.pooler.* "
                "start at random. To read the label from the mean over the text, give {classifier_pooling}.",
                classifier_pooling="mean",
            )
        )
    return lines


def checkpoint_digest(checkpoint: str) -> str | None:
    """Return the hash of the weights in a folder, or of a run's scores, which stay where weights are not kept.

    Args:
        checkpoint: folder or name on the Hub, of which nothing is known.
    """
    folder = Path(checkpoint)
    kinds = (sorted(folder.glob(name)) for name in (SCORES_FILE, "*.safetensors", "*.bin"))
    files = next(filter(None, kinds), [])
    total = sha256()
    for path in files:
        with path.open("rb") as file:
            total.update(file_digest(file, "sha256").digest())
    return total.hexdigest() if files else None


def customers_of_texts(recipe: Recipe, table: pa.Table, split: Split) -> NDArray[np.int64] | None:
    """Return the number of the customer of each text of the training part, None where the table names none.

    Raises:
        DataError: a customer that cannot be a name.
    """
    return numbers_of_customers(customers_in(recipe, table, split), table)


def unknown_shares(ready: TextData) -> dict[str, float]:
    """Return part -> the share of its tokens that the tokenizer does not know; nothing where it reads every text."""
    tokenizer: Any = ready.processor.tokenizer
    others = [getattr(tokenizer, f"{name}_token_id", None) for name in ("cls", "sep", "pad", "mask", "bos", "eos")]
    if tokenizer.unk_token_id is None or tokenizer.unk_token_id in others:
        return {}
    found: dict[str, float] = {}
    special = torch.tensor([each for each in others if each is not None])
    for part, texts in ready.texts.items():
        ids = texts.dataset.input_ids
        num_tokens = int((~torch.isin(ids, special)).sum())
        found[part] = int((ids == tokenizer.unk_token_id).sum()) / max(num_tokens, 1)
    return found


def check_known_words(ready: TextData) -> None:
    """Raise CheckpointError where the tokenizer of a checkpoint knows hardly a word of the training part."""
    checkpoint, share = ready.recipe.text_task.checkpoint, unknown_shares(ready).get("train", 0.0)
    if checkpoint is not None and share >= _ALL_UNKNOWN:
        raise CheckpointError(
            f"its tokenizer does not know {share:.1%} of the tokens of the training part",
            fix="Give a checkpoint of the language, or the files of its own tokenizer: capitals count, too.",
            place=PathPlace(checkpoint, is_subject=False),
        )


def word_lines(ready: TextData) -> list[str]:
    """Return sentences on the words that are the tokens, or that the tokenizer of a checkpoint does not know."""
    shares = unknown_shares(ready)
    if ready.recipe.text_task.checkpoint is not None:
        return [
            f"warning: {part}: the tokenizer does not know {share:.1%} of the tokens and reads them as [UNK]: does it "
            "fit the language and the capitals of these texts?"
            for part, share in shares.items()
            if share >= _MANY_UNKNOWN
        ]
    tokenizer: Any = ready.processor.tokenizer
    num_words = len(tokenizer) - len(tokenizer.all_special_ids)
    fewest = ready.recipe.min_customers
    has_customers = customers_in(ready.recipe, ready.examples.table, ready.split) is not None
    owners = counted(fewest, "customer" if has_customers else "text")
    lines = [f"no checkpoint: the tokens are {counted(num_words, 'word')}, each of at least {owners}"]
    has_elmo = ready.recipe.text_task.elmo is not None
    read = "[UNK]; where ELMo's vectors are read, by their characters, too" if has_elmo else "[UNK]"
    lines += [f"{part}: {share:.1%} of the words are others, and read as {read}" for part, share in shares.items()]
    if not num_words:
        lines.append(
            Message(
                "warning: no word is left, so ngrams, cnn and bilstm tell no two texts apart. Give a smaller "
                "{min_customers}.",
                min_customers=NAME,
            )
        )
    return lines
