"""Contrastive text: vectors of texts under a context that find the documents that belong to them."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from contextual_bert.baselines import LabelShares
from contextual_bert.baselines.names import CONTEXT_AS_TEXT, PLAIN_BERT, POPULARITY
from contextual_bert.baselines.shares import UNSEEN_LABEL, Observations
from contextual_bert.data import SequenceDataset, TextTable
from contextual_bert.data.checked_columns import text_column
from contextual_bert.errors import ConfigurationError, DataError
from contextual_bert.evaluation import EvaluationSettings, Scores
from contextual_bert.evaluation.metrics import RIGHT_DOCUMENT
from contextual_bert.inference import EncodedTexts, encode_texts, placed, set_index
from contextual_bert.inference.texts.document_scoring import ranked_documents, score_documents
from contextual_bert.models import ContextualBertForSentenceEmbedding
from contextual_bert.models.checkpoint_files import own_config, sentence_pooling_of
from contextual_bert.nouns import agreeing, counted
from contextual_bert.runs.contrastive_objective import NDCG_KS, RECALL_KS, ContrastiveObjective
from contextual_bert.runs.registry import keeps_weights
from contextual_bert.runs.retrieval_baselines import TfidfRetrieval, score_by_shares
from contextual_bert.runs.tasks.classification import RATES
from contextual_bert.runs.tasks.paired_text import NEW_ENCODER_TRAINING, PairedTextTask
from contextual_bert.runs.tasks.text import OWN_TRAINING
from contextual_bert.training import ContextualBertTrainer, ContextualTrainingArguments
from contextual_bert.training.contrastive_pairs import ContrastiveText
from contextual_bert.training.recipe import Recipe

BATCH_SIZE = 64  # of training: each text has the documents of the others to be told from
_FEWEST = 2  # documents of a part, among which one is found


class ContrastiveTextTask(PairedTextTask):
    """Vectors of prepared texts and documents.

    Documents are numbered over the whole table, each different text once. A part ranks its own.
    """

    model_class = ContextualBertForSentenceEmbedding
    counted = (LabelShares,)
    unseen_prior = UNSEEN_LABEL
    evaluated_as = EvaluationSettings(
        ks=RECALL_KS, set_ks=NDCG_KS, row_name=RIGHT_DOCUMENT, set_name="text", choice_name="document"
    )
    name_of_shares = "document shares"
    num_sampled = 10**9  # as many as are evaluated: among fewer documents one is found more easily

    @classmethod
    def check_examples(cls, recipe: Recipe, examples: TextTable) -> None:
        """Raise DataError for a column that cannot be read, and for a document with nothing in it."""
        super().check_examples(recipe, examples)
        advice = "Each text needs one that it is to find"
        cls.check_second(recipe, examples, str(recipe.text_task.pair), noun="document", advice=advice)

    def check(self, recipe: Recipe) -> None:
        """Raise an error also where no weight is trained, or a part has one document alone."""
        super().check(recipe)
        if recipe.trained_weights == "new" and recipe.conditioning in PLAIN_BERT:
            raise ConfigurationError(
                f"trains what a BERT lacks, and with {recipe.conditioning!r} that is nothing: vectors have no layer of "
                "their own",
                setting="trained_weights",
                value="new",
                fix="Leave it out, or take a method that reads the context.",
            )
        for part, dataset in self.datasets.items():
            number = len(ranked_documents(dataset))
            if number < _FEWEST:
                raise DataError(
                    f"the {part} part has one document for {counted(len(dataset), 'text')}, and no other",
                    file=self.recipe.data,
                    column=self._task.pair,
                    fix="Split the table so that each part has two documents or more.",
                )

    def check_model(self, model: Any, directory: Any) -> None:
        """Pass: whatever documents a table has, a finished run reads them."""
        if model.config.has_context_as_text:
            self.check_words(num_positions=model.config.max_position_embeddings)

    @cached_property
    def document_texts(self) -> pa.Array:
        """The different documents of the whole table, in the order in which they come first."""
        column = text_column(self.examples.table.column(self._task.pair), self._task.pair)
        return pc.unique(column.cast(pa.string()))

    @cached_property
    def documents(self) -> EncodedTexts:
        """The encoded documents: document i is the sequence i."""
        table = pa.table({self._task.pair: self.document_texts})
        try:
            return self.encode_alone(table, self._task.pair)
        except DataError as error:
            column = self.examples.table.column(self._task.pair).cast(pa.string())
            rows = pc.index_in(self.document_texts, value_set=column.combine_chunks())
            raise placed(error, rows.to_numpy(zero_copy_only=False), file=self.recipe.data) from error

    def encode_rows(self, table: pa.Table) -> EncodedTexts:
        """Encode the texts of a table; their labels are the numbers of their documents."""
        task = self._task
        how: dict[str, Any] = {"max_length": task.max_length, "truncation": task.truncation}
        found = encode_texts(table, self.processor, text=task.text, **how)
        column = text_column(table.column(task.pair), task.pair).cast(pa.string())
        numbers = pc.index_in(column, value_set=self.document_texts).combine_chunks()
        labels = torch.from_numpy(numbers.to_numpy(zero_copy_only=False).astype(np.int64))
        return replace(found, dataset=found.dataset.with_labels(labels))

    @property
    def longest_text(self) -> int:
        """Return the number of tokens of the longest text or document."""
        return max(super().longest_text, int(self.documents.dataset.sizes.max()))

    def own_lines(self) -> list[str]:
        """Return the sentences on texts, and on the documents of each part."""
        return [*super().own_lines(), *self._document_lines(self.datasets)]

    def unranked_lines(self, part: str, num_unknown: int) -> list[str]:
        """Return sentences on the documents that are ranked."""
        return [*self._document_lines([part]), *super().unranked_lines(part, num_unknown)]

    def _document_lines(self, parts: Any) -> list[str]:
        numbers = {part: ranked_documents(self.datasets[part]) for part in parts}
        counts = [f"{len(each):,} in {part}" for part, each in numbers.items()]
        lines = [f"different documents: {', '.join(counts)}. A text's own is ranked among those of its part"]
        known = numbers.get("train")
        for part, own in numbers.items():
            num_new = int((~torch.isin(own, known)).sum()) if known is not None and part != "train" else 0
            if num_new:
                lines.append(f"{part}: {num_new:,} of {counted(len(own), 'document')} {agreeing('are', num_new)} new")
        is_cut, report = self.documents.is_cut, self.documents.report
        num_cut = int(is_cut[torch.cat([*numbers.values()]).unique().numpy()].sum())
        if num_cut:
            verb = agreeing("are", num_cut)
            lines.append(f"{counted(num_cut, 'document')} {verb} cut to {report.max_length:,} tokens")
        return lines

    @property
    def model_fields(self) -> Mapping[str, Any]:
        """Return the pooling of a text, and the temperature."""
        return {"classifier_pooling": self.pooling, "similarity_temperature": self._task.temperature}

    @cached_property
    def pooling(self) -> str:
        """Return the pooling of a text: the recipe's, else that of the checkpoint's training, else the mean."""
        if "classifier_pooling" in self.recipe.model:
            return super().pooling
        task = self._task
        if task.checkpoint is None or task.is_from_scratch:
            return "mean"
        own = own_config(task.checkpoint)
        if own is not None and own.architectures == [self.model_class.__name__]:
            return own.classifier_pooling
        return sentence_pooling_of(task.checkpoint)

    def head_lines(self, *, reads_pooler: bool = False) -> list[str]:
        """Return nothing: no weight of a head is new."""
        return []

    def usual_training(self, recipe: Recipe) -> Mapping[str, Any]:
        """Return the settings of texts with larger batches, or of what starts from nothing."""
        usual = {**super().usual_training(recipe), "per_device_train_batch_size": BATCH_SIZE}
        if recipe.task.checkpoint_to_start_from is None:
            return {**usual, **NEW_ENCODER_TRAINING}
        has_new = recipe.conditioning not in (*OWN_TRAINING, *PLAIN_BERT) and not self.goes_on
        is_whole = recipe.trained_weights == "all" and "learning_rate" not in recipe.training
        return {**usual, **(RATES if has_new and is_whole else {})}

    def build_model(self, recipe: Recipe, *, is_quiet: bool = False) -> nn.Module:
        """Build a model of vectors, or a baseline that ranks documents."""
        if recipe.conditioning not in self._task.baselines or recipe.conditioning == CONTEXT_AS_TEXT:
            return super().build_model(recipe, is_quiet=is_quiet)
        self.check(recipe)
        if recipe.conditioning in POPULARITY:
            reads = bool(POPULARITY[recipe.conditioning])
            schema = self.processor.schema
            layout = schema.layout if schema is not None else ()
            how = "concat" if reads else "none"
            return LabelShares(num_labels=len(self.document_texts), layout=layout, conditioning=how)
        texts = self.examples.table.column(self._task.text).to_numpy()
        return TfidfRetrieval(texts, self.document_texts.to_numpy(zero_copy_only=False))

    def unfit(self, recipe: Recipe) -> DataError | None:
        """Return None: each baseline can rank documents."""

    def fit(self, recipe: Recipe, model: nn.Module) -> Mapping[str, Any] | None:
        """Count documents, or weigh words; None for a model that is to be trained."""
        if isinstance(model, TfidfRetrieval):
            training = cast(SequenceDataset, self.dataset(recipe, "train"))
            return model.fit(training, self.dataset(recipe, "validation"))
        return super().fit(recipe, model)

    def count(self, model: nn.Module) -> int:
        """Return the number of parameters, or of weighted words."""
        return model.num_weights if isinstance(model, TfidfRetrieval) else super().count(model)

    def finished(self, recipe: Recipe, model: nn.Module) -> nn.Module:
        """Return the model; a baseline is scored, and not kept."""
        return super().finished(recipe, model) if keeps_weights(recipe) else model

    def trainer_of(
        self, recipe: Recipe, model: nn.Module, arguments: ContextualTrainingArguments, settings: dict[str, Any]
    ) -> ContextualBertTrainer:
        """Return a trainer that tells the document of each text from the others of its batch."""
        objective = ContrastiveObjective(settings["train_dataset"], self.documents.dataset, arguments)
        return ContextualBertTrainer(model, arguments, objective=objective, **settings)

    def score_dataset(self, model: nn.Module, dataset: SequenceDataset, part: str, **settings: Any) -> Scores:
        """Rank the document of each text among all of these texts."""
        if isinstance(model, TfidfRetrieval):
            return model.score(dataset, **settings)
        if isinstance(model, LabelShares):
            return score_by_shares(model, dataset, **settings)
        return score_documents(model, dataset, self.documents.dataset, **settings)

    def observations(self, dataset: SequenceDataset) -> Observations:
        """Return the documents as classes."""
        return Observations(cast(Tensor, dataset.labels), torch.arange(len(dataset)), dataset.context)

    @property
    def num_classes(self) -> tuple[int, int]:
        """Return the number of documents of the table; none is reserved."""
        return len(self.document_texts), 0

    @property
    def num_choices(self) -> int:
        """Return the number of documents of the evaluated part."""
        return self.choices_in(next(part for part in ("test", "validation", "train") if part in self.datasets))

    def choices_in(self, part: str) -> int:
        """Return the number of different documents of a part."""
        return len(ranked_documents(self.datasets[part]))

    def targets(self, part: str, scored: Scores) -> NDArray[np.int64]:
        """Return the numbers of the right documents."""
        dataset = self.datasets[part]
        return dataset.labels.numpy()[set_index(dataset, scored.example_id)]

    def share_losses(self, part: str, scored: Scores, *, softmax_over: str) -> NDArray[np.float64] | None:
        """Return the loss of counted shares of the documents of the part, in nats."""
        shares = self.log_shares(is_without_visible=False)
        total = np.log(np.exp(shares[ranked_documents(self.datasets[part]).numpy()]).sum())
        return total - shares[self.targets(part, scored)]

    def unlearned_rows(self, part: str, scored: Scores) -> NDArray[np.bool_] | None:
        """Return True for each text whose document training lacks; None where there is none."""
        known = self.datasets["train"].labels.numpy()
        is_unlearned = ~np.isin(self.targets(part, scored), known)
        return is_unlearned if is_unlearned.any() else None

    @property
    def _task(self) -> ContrastiveText:
        return cast(ContrastiveText, self.recipe.task)
