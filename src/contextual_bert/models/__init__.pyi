from .causal_lm import ContextualBertForCausalLM
from .compatibility import check_processor
from .configuration_contextual_bert import (
    PAPER_CONTEXT_SIZE,
    ContextualBertConfig,
)
from .context_state import ContextState
from .feature_extraction_contextual_bert import ContextFeatureExtractor
from .label_ranks import best_labels, label_logits, rank_decisions, rank_labels, span_logits
from .masked_lm import IGNORED_LABEL, ContextualBertForMaskedLM
from .modeling_contextual_bert import ContextualBertModel, ContextualBertPreTrainedModel
from .parameter_count import (
    PAPER_PARAMETERS,
    ParameterCount,
    Table1Row,
    count_parameters,
    matching_sizes,
    table1,
)
from .processing_contextual_bert import ContextualBertProcessor
from .reserved_items import RESERVED_ITEMS
from .sentence_embedding import ContextualBertForSentenceEmbedding
from .seq2seq_lm import ContextualBertForSeq2SeqLM
from .sequence_classification import ContextualBertForSequenceClassification
from .token_heads import (
    ContextualBertForQuestionAnswering,
    ContextualBertForTokenClassification,
)

__all__ = [
    "IGNORED_LABEL",
    "PAPER_CONTEXT_SIZE",
    "PAPER_PARAMETERS",
    "RESERVED_ITEMS",
    "ContextFeatureExtractor",
    "ContextState",
    "ContextualBertConfig",
    "ContextualBertForCausalLM",
    "ContextualBertForMaskedLM",
    "ContextualBertForQuestionAnswering",
    "ContextualBertForSentenceEmbedding",
    "ContextualBertForSeq2SeqLM",
    "ContextualBertForSequenceClassification",
    "ContextualBertForTokenClassification",
    "ContextualBertModel",
    "ContextualBertPreTrainedModel",
    "ContextualBertProcessor",
    "ParameterCount",
    "Table1Row",
    "best_labels",
    "check_processor",
    "count_parameters",
    "label_logits",
    "matching_sizes",
    "rank_decisions",
    "rank_labels",
    "span_logits",
    "table1",
]
