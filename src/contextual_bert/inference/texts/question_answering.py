"""It is trained, how do I ask? Questions, texts and contexts in, the piece of each text that answers out.

It knows no training.
"""

from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from contextual_bert.errors import ConfigurationError
from contextual_bert.inference.saved import bare_model, load_text_model
from contextual_bert.inference.scoring import to_device
from contextual_bert.inference.texts.answer_scoring import log_shares
from contextual_bert.inference.texts.answer_spans import MAX_ANSWER_TOKENS
from contextual_bert.inference.texts.base_question_answering import BaseQuestionAnsweringPipeline
from contextual_bert.inference.texts.text_pipeline import tensors_of
from contextual_bert.inference.texts.text_rows import TextBatch
from contextual_bert.models import ContextualBertForQuestionAnswering, ContextualBertProcessor


class QuestionAnsweringPipeline(BaseQuestionAnsweringPipeline):
    """Finds the answers to questions in texts, for the person who asks.

    Formula:
        Pr(i, j) = softmax(start)_i softmax(end)_j, over the tokens of a window's text and [CLS], which is no answer

    Args:
        model: the trained model.
        processor: its processor.
        device: where to run; default: where the model is.
        max_answer_tokens: an answer has so many tokens at most.

    Raises:
        ConfigurationError: model and processor do not belong together.

    Relation to its siblings:
        ``TextPipeline`` labels texts. A text that is longer than the model reads is read in windows that overlap, as
        ``encode_questions`` makes them.

    Reference:
        Devlin et al. (2019), section 4.2.

    Example:
        >>> from contextual_bert.models import ContextualBertConfig
        >>> from contextual_bert.testing import miniature_text_processor
        >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
        >>> model = ContextualBertForQuestionAnswering(ContextualBertConfig(vocab_size=23, type_vocab_size=2, **sizes))
        >>> pipeline = QuestionAnsweringPipeline(model, miniature_text_processor(), max_answer_tokens=1)
        >>> pipeline({"question": "word1", "text": "word2 word3"})["answer"] in ("word2", "word3")
        True
    """

    def __init__(
        self,
        model: ContextualBertForQuestionAnswering,
        processor: ContextualBertProcessor,
        *,
        device: str | torch.device | None = None,
        max_answer_tokens: int = MAX_ANSWER_TOKENS,
    ) -> None:
        bare = bare_model(model)
        if not isinstance(bare, ContextualBertForQuestionAnswering):
            raise ConfigurationError(
                f"{type(bare).__name__} answers no questions",
                fix=f"Give a {ContextualBertForQuestionAnswering.__name__}.",
            )
        if bare.config.type_vocab_size < 2:
            raise ConfigurationError("A question and its text are two segments: the model needs type_vocab_size=2.")
        if not processor.is_for_text:
            raise ConfigurationError("This processor is for sets of items", fix="Give that of the text model.")
        place: Any = device if device is not None else model.device
        super().__init__(model.to(place).eval(), processor, max_answer_tokens=max_answer_tokens)

    @classmethod
    def from_pretrained(cls, directory: str | Path, *, device: str | torch.device | None = None) -> Self:
        """The pipeline of a folder that model and processor were saved in.

        Raises:
            RunDirectoryError: no such folder, files missing or damaged, or a model that answers no questions.
        """
        model, processor = load_text_model(directory, ContextualBertForQuestionAnswering)
        return cls(model, processor, device=device)

    def log_shares(self, batch: TextBatch) -> NDArray[np.float32]:
        inputs = tensors_of(batch)
        with torch.inference_mode():
            outputs = self.model(**to_device(inputs, self.model.device))
        return log_shares(self.model, outputs, inputs).numpy()
