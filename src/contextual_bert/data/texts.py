"""Encoded texts with their labels and contexts as tensors, and whole batches of them.

As `SetDataset` for sets: a DataLoader fetches a batch at once, padded to its longest text. It masks nothing and knows
neither words nor values, only ids.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from contextual_bert.data.dataset import SetDataset, context_of
from contextual_bert.errors import ConfigurationError

__all__ = ["TextDataset"]

IGNORED = -100  # the label that losses of torch and transformers leave out


class TextDataset(Dataset[dict[str, Any]]):
    """Texts as one flat tensor of token ids and offsets, with a label and one row of context for each.

    Give `collate_fn` as the `data_collator` of a Trainer, with `remove_unused_columns=False`.

    Shapes: token_ids (tokens of all texts,), offsets (texts + 1,), labels (texts, ...) or, one a token, (tokens of all
    texts,), context each (texts, ...), second_starts (texts,), spans (texts, 2), example_ids (texts,); a batch has
    input_ids, attention_mask, token_type_ids (batch, length), labels (batch, ...) or (batch, length), start_positions,
    end_positions (batch,), context each (batch, ...).

    Args:
        token_ids: ids of all tokens, [CLS] and [SEP] included, one text after the other.
        offsets: text i is `token_ids[offsets[i] : offsets[i + 1]]`.
        context: a tensor a feature with a row a text; an empty mapping where there is no context.
        labels: what is to be learned; None where nothing is.
        second_starts: the place in each text where its second half begins (segment 1); None: there are no pairs.
        spans: the places in each text where the answer to a question begins and ends; None where none is asked.
        example_ids: the row of the table that each text is from; None: they are numbered.
        pad_id: id behind the end of a text.

    Raises:
        ConfigurationError: parts that do not fit each other.

    Relation to its siblings: `encode_texts` makes it of a table.

    Example:
        >>> texts = TextDataset(torch.tensor([2, 5, 3, 2, 3]), torch.tensor([0, 3, 5]), context={}, pad_id=0)
        >>> texts.__getitems__([1, 0])["input_ids"]
        tensor([[2, 3, 0],
                [2, 5, 3]])
    """

    def __init__(
        self,
        token_ids: Tensor,
        offsets: Tensor,
        *,
        context: Mapping[str, Tensor],
        labels: Tensor | None = None,
        second_starts: Tensor | None = None,
        spans: Tensor | None = None,
        example_ids: Tensor | None = None,
        pad_id: int = 0,
    ) -> None:
        count = len(offsets) - 1
        if count < 0 or int(offsets[0]) != 0 or int(offsets[-1]) != len(token_ids):
            raise ConfigurationError(f"offsets must go from 0 to the number of tokens, {len(token_ids)}.")
        self.token_ids, self.offsets, self.pad_id = token_ids, offsets, pad_id
        self.labels, self.context, self.second_starts, self.spans = labels, dict(context), second_starts, spans
        self.example_ids = torch.arange(count) if example_ids is None else example_ids
        self.has_label_per_token = labels is not None and len(labels) == len(token_ids) and len(labels) != count
        rows = {"example_ids": self.example_ids, "second_starts": second_starts, "spans": spans, **self.context}
        rows |= {} if self.has_label_per_token else {"labels": labels}
        for name, values in rows.items():
            if values is not None and len(values) != count:
                raise ConfigurationError(f"{name!r} has {len(values)} rows for {count} texts: give one row a text.")

    def __len__(self) -> int:
        return len(self.example_ids)

    @property
    def sizes(self) -> Tensor:
        """Number of tokens of each text."""
        return self.offsets.diff()

    def with_context(self, context: Mapping[str, Tensor]) -> "TextDataset":
        """The same texts for other people; this data set stays as it is."""
        return TextDataset(
            self.token_ids,
            self.offsets,
            context=context,
            labels=self.labels,
            second_starts=self.second_starts,
            spans=self.spans,
            example_ids=self.example_ids,
            pad_id=self.pad_id,
        )

    def as_sets(self) -> SetDataset:
        """The texts as sets of tokens in their order, of which a `TextMaskingCollator` hides some."""
        ids, pad_id = self.example_ids, self.pad_id
        return SetDataset(self.token_ids, self.offsets, context=self.context, example_ids=ids, pad_id=pad_id)

    def __getitem__(self, index: int) -> dict[str, Any]:
        if not -len(self) <= index < len(self):
            raise IndexError(f"text {index} of {len(self)}: give a number from 0 to {len(self) - 1}.")
        row = _row(self.__getitems__([index % len(self)]), 0)
        # As wide as those of other rows, so that they can be stacked.
        return (
            {**row, "context": {name: values[index] for name, values in self.context.items()}} if self.context else row
        )

    def __getitems__(self, indices: Sequence[int] | Tensor) -> dict[str, Any]:
        index = torch.as_tensor(indices, dtype=torch.int64)
        starts = self.offsets[index]
        lengths = self.offsets[index + 1] - starts
        places = torch.arange(int(lengths.max()))
        real = places < lengths[:, None]
        flat = (starts[:, None] + places).clamp_(max=len(self.token_ids) - 1)
        batch: dict[str, Any] = {
            "input_ids": self.token_ids[flat].masked_fill_(~real, self.pad_id),
            "attention_mask": real.long(),
        }
        if self.second_starts is not None:
            batch["token_type_ids"] = ((places >= self.second_starts[index][:, None]) & real).long()
        if self.spans is not None:
            batch["start_positions"], batch["end_positions"] = self.spans[index].unbind(dim=1)
        if self.labels is not None and self.has_label_per_token:
            batch["labels"] = self.labels[flat].masked_fill_(~real, IGNORED)
        elif self.labels is not None:
            batch["labels"] = self.labels[index]
        if self.context:
            batch["context"] = context_of(self.context, index)
        return batch

    def collate_fn(self, batch: dict[str, Any] | Sequence[dict[str, Any]]) -> dict[str, Any]:
        """A batch as it came from `__getitems__`; rows one by one are put together."""
        if isinstance(batch, dict):
            return batch
        if batch and isinstance(batch[0], str):
            raise ConfigurationError(
                "A batch came as the names of its columns: give the Trainer remove_unused_columns=False, or it looks "
                "for rows where there are whole batches."
            )
        padding = {"input_ids": self.pad_id, "attention_mask": 0, "token_type_ids": 0, "labels": IGNORED}
        whole: dict[str, Any] = {}
        for name in batch[0]:
            values = [row[name] for row in batch]
            if name == "context":
                whole[name] = {feature: torch.stack([value[feature] for value in values]) for feature in values[0]}
            elif name in ("start_positions", "end_positions") or (name == "labels" and not self.has_label_per_token):
                whole[name] = torch.stack(values)
            else:
                whole[name] = torch.nn.utils.rnn.pad_sequence(values, batch_first=True, padding_value=padding[name])
        return whole


def _row(batch: Mapping[str, Any], row: int) -> dict[str, Any]:
    return {
        name: {feature: values[row] for feature, values in value.items()} if name == "context" else value[row]
        for name, value in batch.items()
    }
