"""The tokenizer of an export of texts, by ``tokenizers`` alone: what the pipelines ask of transformers' fast ones.

It imports no torch and no transformers. Padding and truncation that a file asks for are not done, as transformers does
none unless it is told.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from tokenizers import Tokenizer

from contextual_bert.errors import RunDirectoryError
from contextual_bert.json_text import read_json_object
from contextual_bert.places import PathPlace

_FIX = "Export the run again."
_NO_LIMIT = int(1e30)
_SPECIAL = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")


class ExportedTokenizer:
    """Tokens of texts, and the ids of special tokens.

    Args:
        backend: of ``tokenizers``.
        settings: what tokenizer_config.json says.

    Attributes:
        backend_tokenizer: the backend, as transformers calls it.

    Relation to its siblings:
        transformers' ``PreTrainedTokenizerFast`` wrote the files, and gives the same tokens.
    """

    is_fast = True

    def __init__(self, backend: Any, settings: dict[str, Any]) -> None:
        backend.no_truncation()
        backend.no_padding()
        self.backend_tokenizer = backend
        limit: Any = settings.get("model_max_length")
        self.model_max_length = int(limit) if isinstance(limit, int | float) else _NO_LIMIT
        names = {name: _name_of(settings.get(f"{name}_token")) for name in _SPECIAL}
        ids: dict[str, Any] = {
            name: backend.token_to_id(text) if text is not None else None for name, text in names.items()
        }
        self.cls_token_id: Any = ids["cls"]
        self.sep_token_id: Any = ids["sep"]
        self.pad_token_id: Any = ids["pad"]
        self.unk_token_id: Any = ids["unk"]
        extra: Any = settings.get("extra_special_tokens") or settings.get("additional_special_tokens") or ()
        more = cast("dict[str, Any]", extra).values() if isinstance(extra, dict) else extra
        found = [*ids.values(), *(backend.token_to_id(text) for text in map(_name_of, more) if text is not None)]
        self.all_special_ids = [number for number in dict.fromkeys(found) if number is not None]

    @classmethod
    def from_pretrained(cls, directory: Path) -> "ExportedTokenizer":
        """Read tokenizer.json and tokenizer_config.json.

        Raises:
            RunDirectoryError: a file cannot be read, or lacks a token that texts are laid out with.
        """
        settings = read_json_object(directory / "tokenizer_config.json", fix=_FIX)
        path = directory / "tokenizer.json"
        try:
            backend: Any = Tokenizer.from_file(str(path))
        except Exception as error:  # tokenizers raises this class alone
            raise RunDirectoryError(f"cannot be read: {error}", fix=_FIX, place=PathPlace(path)) from error
        found = cls(backend, settings)
        lacking = [name for name in ("cls", "sep", "pad") if getattr(found, f"{name}_token_id") is None]
        if lacking:
            missing = " and no ".join(f"{name}_token" for name in lacking)
            raise RunDirectoryError(f"has no {missing}", fix=_FIX, place=PathPlace(directory / "tokenizer_config.json"))
        return found

    def num_special_tokens_to_add(self, pair: bool = False) -> int:
        """Return how many tokens are put around a text, or around and between two."""
        return self.backend_tokenizer.num_special_tokens_to_add(pair)

    def __call__(
        self,
        texts: Sequence[str],
        pairs: Sequence[str] | None = None,
        *,
        add_special_tokens: bool = True,
        truncation: str | None = None,
        max_length: int | None = None,
        stride: int = 0,
        **_: Any,
    ) -> dict[str, list[Any]]:
        """Return the tokens of texts, or of pairs; parts of those that are too long, where ``truncation`` says which.

        Args:
            texts: the texts.
            pairs: a second text for each.
            add_special_tokens: whether [CLS] and [SEP] stand around.
            truncation: "only_second" gives windows over the second text; None: nothing is cut.
            max_length: tokens of a window.
            stride: tokens that two windows share.
        """
        backend, inputs = self.backend_tokenizer, [*texts] if pairs is None else [*zip(texts, pairs, strict=True)]
        if truncation is not None:
            backend.enable_truncation(max_length, stride=stride, strategy=truncation)
        try:
            whole = backend.encode_batch(inputs, add_special_tokens=add_special_tokens)
        finally:
            backend.no_truncation()
        found = [(row, each) for row, first in enumerate(whole) for each in (first, *first.overflowing)]
        encodings = [each for _, each in found]
        return {
            "input_ids": [each.ids for each in encodings],
            "token_type_ids": [each.type_ids for each in encodings],
            "special_tokens_mask": [each.special_tokens_mask for each in encodings],
            "offset_mapping": [each.offsets for each in encodings],
            "overflow_to_sample_mapping": [row for row, _ in found],
        }


def _name_of(token: Any) -> str | None:
    """Return the text of a token as tokenizer_config.json has it; None where there is none."""
    if isinstance(token, dict):
        token = cast("dict[str, Any]", token).get("content")
    return token if isinstance(token, str) else None
