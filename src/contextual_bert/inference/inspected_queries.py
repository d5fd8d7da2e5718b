"""Queries as ``inspect_model`` reads them: one a model, its positions by name, and what the model predicts there.

A task names the class for its models. It knows no run and no page.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa
import torch
from torch import Tensor

from contextual_bert.arrow_types import checked_text
from contextual_bert.candidates import exclude, excluded_ids
from contextual_bert.data import SequenceDataset
from contextual_bert.errors import QueryError
from contextual_bert.inference.queries import (
    MASK,
    check_query,
    check_set,
    cut_notes,
    in_queries,
    newest_of,
    read_request,
)
from contextual_bert.inference.scoring import to_device
from contextual_bert.inference.texts.answer_scoring import log_shares
from contextual_bert.inference.texts.encode_questions import encode_questions
from contextual_bert.inference.texts.encode_texts import encode_texts
from contextual_bert.inference.texts.question_windows import NO_ANSWER
from contextual_bert.inference.texts.text_labels import LabelColumns
from contextual_bert.inference.texts.text_layout import NO_START
from contextual_bert.inference.texts.text_writing import written_ids
from contextual_bert.models import IGNORED_LABEL, ContextFeatureExtractor, ContextualBertProcessor, label_logits

MAX_POSITIONS = 128  # of a picture of attention, in which each has a row that can be read


class InspectedQuery(ABC):
    """One query, without its context.

    Args:
        model: that is asked, in ``eval()`` mode.
        processor: its own.
        query: {key: value} of ``keys``, and "context", which is not read here.
        room: tokens of a text at most.

    Attributes:
        keys: of a query, beside "context".
        example: what a query looks like, for messages.
        inputs: one row of what ``forward`` takes.
        tokens: the name of each position.
        notes: what the reader should know.

    Raises:
        QueryError, UnknownNameError: a faulty query, by the place in it.
    """

    keys: ClassVar[tuple[str, ...]] = ("text",)
    example: ClassVar[str] = 'Give {"text": "...", "context": {...}}.'

    def __init__(self, model: Any, processor: ContextualBertProcessor, query: Mapping[str, Any], *, room: int) -> None:
        check_query(query, row=0, known=(*self.keys, "context"), fix=self.example)
        self.model, self.processor, self.room = model, processor, room
        self.notes: list[str] = []
        self.inputs: dict[str, Any] = self.encoded(query)
        ids: list[int] = self.inputs["input_ids"][0].tolist()
        if len(ids) > MAX_POSITIONS:
            raise QueryError(
                f"has {len(ids)} positions, and a picture of attention has room for {MAX_POSITIONS}",
                location=(0, self.keys[-1]),
                fix="Give less.",
            )
        self.tokens = tuple(map(self.name_of, ids))

    @abstractmethod
    def encoded(self, query: Mapping[str, Any]) -> dict[str, Any]:
        """Return one row of what ``forward`` takes, without a context."""

    @abstractmethod
    def shares(self, outputs: Any) -> dict[str, Tensor]:
        """Return place -> (choices,), the probability of each choice there.

        Args:
            outputs: of the model for one row.
        """

    def further_inputs(self, context: Mapping[str, Tensor]) -> dict[str, Any]:
        """Return what ``forward`` takes besides, which the model makes of the query under its own context."""
        return {}

    def layers(self, outputs: Any) -> Sequence[Tensor]:
        """Return the maps of each layer, (1, heads, positions, positions)."""
        return outputs.attentions

    def cross_attention(self, outputs: Any) -> tuple[tuple[str, ...], Tensor] | None:
        """Return what reads the positions from outside, and its map (heads, rows, positions); None: nothing does."""
        return None

    @abstractmethod
    def choice_name(self, choice: int) -> str:
        """Return what a choice is called."""

    def name_of(self, token: int) -> str:
        """Return the name of a position with this id."""
        return self.processor.tokenizer.decode([token]).strip() or "␣"  # pyright: ignore[reportAttributeAccessIssue]


class InspectedText(InspectedQuery):
    """A text, or a pair."""

    has_words: ClassVar[bool] = False
    word_starts: Any = None

    def encoded(self, query: Mapping[str, Any]) -> dict[str, Any]:
        asked = [key for key in self.keys if key == "text" or query.get(key) is not None]
        given = {key: given_text(query, key, fix=self.example) for key in asked}
        if "pair" in given and self.model.config.type_vocab_size < 2:
            raise QueryError(
                "this model has one segment, and a pair of texts two",
                location=(0, "pair"),
                value=given["pair"],
                fix="Leave the second text out.",
            )
        columns: dict[str, list[Any]] = {key: [value] for key, value in given.items()}
        if self.has_words:
            columns["text"] = [given["text"].split()]
        with in_queries():
            found = encode_texts(
                pa.table(columns),
                ContextualBertProcessor(ContextFeatureExtractor(), self.processor.tokenizer),
                text="text",
                pair="pair" if "pair" in given else None,
                max_length=self.room,
                truncation="head" if "pair" in given else self.processor.truncation,
            )
        if found.is_cut.any():
            self.notes.append("The text is longer than the model reads: a part of it was not read.")
        self.word_starts = found.word_starts
        self.words: list[str] = columns["text"][0] if self.has_words else []
        return one_row(found.dataset)


class InspectedLabel(InspectedText):
    """A text, or a pair, that gets a label or a grade."""

    keys = ("text", "pair")

    def shares(self, outputs: Any) -> dict[str, Tensor]:
        return {"label": torch.from_numpy(self.labels.shares(outputs.logits.float().cpu().numpy()))[0]}

    def choice_name(self, choice: int) -> str:
        return self.labels.names[choice]

    @property
    def labels(self) -> LabelColumns:
        """The labels of the model."""
        return LabelColumns(self.model.config, has_tags=self.has_words)


class InspectedTags(InspectedLabel):
    """A text, split at its spaces, whose words get tags."""

    keys = ("text",)
    has_words = True

    def shares(self, outputs: Any) -> dict[str, Tensor]:
        is_start = torch.from_numpy(self.word_starts != NO_START)
        asked = torch.where(is_start, 0, IGNORED_LABEL)[None].to(outputs.logits.device)
        found = label_logits(self.model, outputs.logits.float(), asked).softmax(dim=-1)[0].cpu()
        places = zip(self.word_starts[is_start.numpy()].tolist(), found[is_start], strict=True)
        return {f"{number + 1}: {self.words[number]}": share for number, share in places}


class InspectedAnswer(InspectedQuery):
    """A question and the text that answers it."""

    keys = ("question", "text")
    example = 'Give {"question": "...", "text": "...", "context": {...}}.'

    def encoded(self, query: Mapping[str, Any]) -> dict[str, Any]:
        given = {key: [given_text(query, key, fix=self.example)] for key in self.keys}
        tokens = ContextualBertProcessor(ContextFeatureExtractor(), self.processor.tokenizer)
        with in_queries():
            windows = encode_questions(pa.table(given), tokens, max_length=self.room).dataset
        if len(windows) > 1:
            self.notes.append(f"The text is read in {len(windows)} windows, of which the first is shown.")
        return one_row(windows)

    def shares(self, outputs: Any) -> dict[str, Tensor]:
        first, last = log_shares(self.model, outputs, self.inputs)[0].exp()
        return {"answer begins": first, "answer ends": last}

    def choice_name(self, choice: int) -> str:
        return "(no answer)" if choice == NO_ANSWER else f"{choice + 1}: {self.tokens[choice]}"


class InspectedNext(InspectedText):
    """The beginning of a text that a model continues."""

    def encoded(self, query: Mapping[str, Any]) -> dict[str, Any]:
        return {name: values[:, :-1] for name, values in super().encoded(query).items()}  # without the text's end

    def shares(self, outputs: Any) -> dict[str, Tensor]:
        return {"next token": outputs.logits[0, -1].float().softmax(dim=-1).cpu()}

    def choice_name(self, choice: int) -> str:
        return self.name_of(choice)


class InspectedSource(InspectedText):
    """A text from which another one is written."""

    keys = ("text",)

    def further_inputs(self, context: Mapping[str, Tensor]) -> dict[str, Any]:
        given: dict[str, Any] = {name: self.inputs[name] for name in ("input_ids", "attention_mask")}
        given = to_device({**given, **({"context": dict(context)} if context else {})}, self.model.device)
        longest = min(MAX_POSITIONS, self.model.config.max_position_embeddings)
        written = written_ids(self.model, self.processor.tokenizer, given, max_new_tokens=longest)
        self.written = [self.name_of(token) for token in written[0].tolist()]
        return {"labels": written.cpu()}

    def layers(self, outputs: Any) -> Sequence[Tensor]:
        return outputs.encoder_attentions or ()  # recurrent layers have none

    def cross_attention(self, outputs: Any) -> tuple[tuple[str, ...], Tensor] | None:
        weights = outputs.cross_attentions
        return (tuple(self.written), weights[0]) if weights is not None else None

    def shares(self, outputs: Any) -> dict[str, Tensor]:
        found = outputs.logits[0].float().softmax(dim=-1).cpu()
        return {
            f"{place}: {name}": share for place, (name, share) in enumerate(zip(self.written, found, strict=True), 1)
        }

    def choice_name(self, choice: int) -> str:
        return self.name_of(choice)


class InspectedBlanks(InspectedText):
    """A text with [MASK] where a token is hidden."""

    not_read: Sequence[int] = ()  # ids of items that stand before those that are read

    def shares(self, outputs: Any) -> dict[str, Tensor]:
        config, ids = self.model.config, self.inputs["input_ids"]
        mask = config.mask_token_id
        blanks = (ids == mask).flatten().nonzero(as_tuple=True)[0]
        logits = outputs.logits.float().cpu()
        logits = logits[0, blanks] if logits.ndim == 3 else logits  # of all positions where it began as a checkpoint
        over = "candidates" if config.softmax_over == "candidates" else "items"  # as CompletionPipeline
        reserved = (*config.reserved_token_ids, *(self.not_read if over == "candidates" else ()))
        excluded = excluded_ids(over, ids, blanks, reserved=reserved)
        found = exclude(logits, excluded).softmax(dim=-1)
        return {f"[MASK] at {place + 1}": share for place, share in zip(blanks.tolist(), found, strict=True)}

    def choice_name(self, choice: int) -> str:
        return self.name_of(choice)


class InspectedSet(InspectedBlanks):
    """A set of items, completed by one more where it has no [MASK]."""

    keys = ("items", "times")
    example = 'Give {"items": ["...", "[MASK]"], "context": {...}}.'

    def encoded(self, query: Mapping[str, Any]) -> dict[str, Any]:
        if "items" not in query:
            raise QueryError("there is no set", location=(0, "items"), fix=self.example)
        request = read_request({key: value for key, value in query.items() if key != "context"}, row=0)
        check_set(request, self.model.config, row=0)
        vocabulary = self.processor.items
        unknown = [item for item in request.items if item != MASK and vocabulary.id_of_value(item) is None]
        if unknown:
            self.notes.append(f"Items that the model never saw, read as [UNK]: {', '.join(unknown)}.")
        self.notes += cut_notes(request, self.model.config)
        read = newest_of(request.items, self.model.config)
        before = request.items[: len(request.items) - len(read)]
        self.not_read = [index for item in before if (index := vocabulary.id_of_value(item)) is not None]
        gaps = request.gaps(self.model.config, row=0)
        return self.processor.encode_items([read], [gaps[len(before) :]] if gaps is not None else None)

    def name_of(self, token: int) -> str:
        return str(self.processor.items.value_of(token))


def one_row(dataset: SequenceDataset) -> dict[str, Any]:
    """Return the first row of a data set as ``forward`` takes it."""
    return dataset.__getitems__(torch.tensor([0])).inputs()


def given_text(query: Mapping[str, Any], key: str, *, fix: str) -> str:
    """Return the text of a query under a key.

    Raises:
        QueryError: there is none, or nothing to read in it.
    """
    text = query.get(key)
    if not isinstance(text, str) or not text.strip():
        problem = f"there is no {key}" if text is None else f"{text!r:.80} is no text"
        raise QueryError(problem, location=(0, key), value=text, fix=fix)
    with in_queries():
        return checked_text(text, row=0, column=key)
