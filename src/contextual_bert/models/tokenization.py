"""How a tokenizer marks words, halves and their ends, whichever family it is of. It knows no model."""

from collections.abc import Mapping
from typing import Any

from tokenizers import processors
from transformers import PreTrainedTokenizerBase
from transformers.convert_slow_tokenizer import bytes_to_unicode

from contextual_bert.models.token_marks import SPACE_MARKS, part_states, space_mark

WORD_PIECE = "##"


def word_pieces(tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """The tokens of the vocabulary in the notation of WordPiece: what goes on a word begins with "##".

    Args:
        tokenizer: of any family that marks where words begin, or where they go on.

    Returns:
        A string an id. A mark of a space is left out; one of punctuation alone begins a word of its own.

    Example:
        >>> from contextual_bert.testing import miniature_text_processor
        >>> word_pieces(miniature_text_processor().tokenizer)[:6]
        ['[PAD]', '[MASK]', '[UNK]', '[CLS]', '[SEP]', 'word0']
    """
    tokens = _names([*range(len(tokenizer))], tokenizer)
    mark = space_mark(tokenizer)
    if mark is None:
        return tokens
    special = set(tokenizer.all_special_tokens)
    return [_word_piece(token, mark) if token not in special else token for token in tokens]


def written_pieces(tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """The tokens as ``word_pieces`` gives them, with the letters that are written where a tokenizer knows bytes.

    Returns:
        A string an id. The bytes of a letter that is cut in two are surrogates, so that the pieces of a word, joined,
        are whole again after ``encode("utf-8", "surrogateescape").decode("utf-8", "replace")``.

    Example:
        >>> from contextual_bert.testing import miniature_text_processor
        >>> written_pieces(miniature_text_processor().tokenizer)[5]
        'word0'
    """
    pieces = word_pieces(tokenizer)
    if space_mark(tokenizer) != SPACE_MARKS["ByteLevel"]:
        return pieces
    byte_of = {letter: byte for byte, letter in bytes_to_unicode().items()}
    special = set(tokenizer.all_special_tokens)
    return [piece if piece in special else _written(piece, byte_of) for piece in pieces]


def _written(piece: str, byte_of: Mapping[str, int]) -> str:
    """Return the text of a token of bytes; one that stands for no bytes as it is."""
    start = WORD_PIECE if piece.startswith(WORD_PIECE) and len(piece) > len(WORD_PIECE) else ""
    codes = [byte_of.get(letter) for letter in piece[len(start) :]]
    found = bytes(code for code in codes if code is not None)
    return start + found.decode("utf-8", "surrogateescape") if len(found) == len(codes) else piece


def _word_piece(token: str, mark: str) -> str:
    if token.startswith(mark):
        return token[len(mark) :]
    return f"{WORD_PIECE}{token}" if any(map(str.isalnum, token)) else token


def tell_halves(tokenizer: PreTrainedTokenizerBase) -> None:
    """Let a tokenizer put the second text of a pair in segment 1, as BERT's does; RoBERTa's leaves all in segment 0.

    Args:
        tokenizer: changed in place; its tokens stay as they are.
    """
    tokenizer.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    tokenizer.init_kwargs["model_input_names"] = tokenizer.model_input_names  # which is what is saved
    ids, kinds, halves = _encoded(tokenizer, "a", "b")
    if 1 not in halves or all(kind == 1 for kind, half in zip(kinds, halves, strict=True) if half == 1):
        return
    backend: Any = tokenizer.backend_tokenizer  # pyright: ignore[reportAttributeAccessIssue]
    alone, _, only = _encoded(tokenizer, "a")
    names = _names(ids, tokenizer)
    named = dict(zip(names, ids, strict=True))
    special = [(name, number) for name, number in named.items() if number in tokenizer.all_special_ids]
    template = processors.TemplateProcessing(
        single=_template(_names(alone, tokenizer), only),
        pair=_template(names, halves),
        special_tokens=special,
    )
    trimming = _trimming(backend.post_processor)
    backend.post_processor = processors.Sequence([trimming, template]) if trimming is not None else template


def mark_ends(tokenizer: PreTrainedTokenizerBase) -> None:
    """Let a tokenizer of a model that writes put a token before each text, from which the first word follows, and one
    behind it, which says that it is over; GPT-2's has one for both, and puts none.

    They are also its [CLS] and [SEP]. Padding, which nothing reads, is the end where there is no other; it stands in
    front, so that what is written follows the prompt.

    Args:
        tokenizer: with an eos_token; changed in place.
    """
    last: Any = tokenizer.eos_token
    first: Any = tokenizer.bos_token or last
    padding: Any = tokenizer.pad_token or last
    tokenizer.add_special_tokens({"bos_token": first, "cls_token": first, "sep_token": last, "pad_token": padding})
    tokenizer.padding_side = "left"
    tokenizer.model_input_names = ["input_ids", "attention_mask"]
    tokenizer.init_kwargs |= {"model_input_names": tokenizer.model_input_names, "padding_side": "left"}
    backend: Any = tokenizer.backend_tokenizer  # pyright: ignore[reportAttributeAccessIssue]
    special = [(name, tokenizer.convert_tokens_to_ids(name)) for name in dict.fromkeys((first, last))]
    backend.post_processor = processors.TemplateProcessing(single=[first, "$A", last], special_tokens=special)


def _encoded(tokenizer: Any, *texts: str) -> tuple[list[int], list[int], list[int | None]]:
    found = tokenizer(*texts, return_token_type_ids=True)
    return found["input_ids"], found["token_type_ids"], found.sequence_ids(0)


def _names(ids: list[int], tokenizer: Any) -> list[str]:
    return tokenizer.convert_ids_to_tokens(ids)


def _template(tokens: list[str], halves: list[int | None]) -> list[str]:
    """Return the parts of a template: special tokens by name, each half once; the second and what follows is of 1."""
    parts: list[str] = []
    kind = 0
    for token, half in zip(tokens, halves, strict=True):
        kind = 1 if half == 1 else kind
        part = f"{token}:{kind}" if half is None else f"${'AB'[half]}:{kind}"
        if half is None or part not in parts:
            parts.append(part)
    return parts


def _trimming(processor: Any) -> Any:
    """Return what leaves the space before a word out of its place in the text, None where nothing does."""
    if processor is None:
        return None
    for found in part_states(processor):
        if found["type"] in ("ByteLevel", "RobertaProcessing"):
            return processors.ByteLevel(trim_offsets=found["trim_offsets"], add_prefix_space=found["add_prefix_space"])
    return None
