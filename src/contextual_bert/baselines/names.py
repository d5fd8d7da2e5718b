"""Names of the baselines: what each sees, and what it can be trained for.

Imports nothing, so that a name is checked before torch is loaded.
"""

from collections.abc import Mapping

CONTEXT_AS_TEXT = "bert_context_as_text"  # the one baseline for whatever is learned from a text
PLAIN_BERT = ("none", CONTEXT_AS_TEXT)  # no weights but those of a checkpoint and its head
# Baseline -> what it sees; the first two are for sets and texts, those of TAG_BASELINES can label the words of a text.
POPULARITY: Mapping[str, frozenset[str]] = {
    "popularity": frozenset(),
    "context_popularity": frozenset({"context"}),
}
ITEM_KNN = "item_knn"
# Those that count what customers bought before: they need a history among the features of the context.
HISTORY_BASELINES: Mapping[str, frozenset[str]] = {
    "g_top_freq": frozenset({"context"}),
    "p_top_freq": frozenset({"context"}),
    "gp_top_freq": frozenset({"context"}),
    "tifu_knn": frozenset({"context"}),
    "up_cf": frozenset({"context"}),
}
SET_BASELINES: Mapping[str, frozenset[str]] = {
    **POPULARITY,
    ITEM_KNN: frozenset({"items"}),
    **HISTORY_BASELINES,
    "bag": frozenset({"items"}),
    "bag_context": frozenset({"items", "context"}),
}
TAG_BASELINES: Mapping[str, frozenset[str]] = {
    "bilstm": frozenset({"items"}),
    "bilstm_context": frozenset({"items", "context"}),
    "bilstm_crf": frozenset({"items"}),
    "bilstm_crf_context": frozenset({"items", "context"}),
    "bigru": frozenset({"items"}),
    "bigru_context": frozenset({"items", "context"}),
    "hmm": frozenset({"items"}),
}
# A chain needs words with a label each.
CHAINS = ("hmm", "bilstm_crf", "bilstm_crf_context")
# Logistic regressions on words, or on vectors of a checkpoint that stays as it is.
LOGISTIC: Mapping[str, frozenset[str]] = {
    "tfidf": frozenset({"items"}),
    "tfidf_context": frozenset({"items", "context"}),
    "embeddings": frozenset({"items"}),
    "embeddings_context": frozenset({"items", "context"}),
}
TEXT_BASELINES: Mapping[str, frozenset[str]] = {
    **POPULARITY,
    **LOGISTIC,
    "ngrams": frozenset({"items"}),
    "ngrams_context": frozenset({"items", "context"}),
    "fasttext": frozenset({"items"}),
    "fasttext_context": frozenset({"items", "context"}),
    "cnn": frozenset({"items"}),
    "cnn_context": frozenset({"items", "context"}),
    "rnn": frozenset({"items"}),
    "rnn_context": frozenset({"items", "context"}),
    **TAG_BASELINES,
    "nsc": frozenset({"items"}),
    "nsc_context": frozenset({"items", "context"}),
    "nsc_la": frozenset({"items"}),
    "nsc_la_context": frozenset({"items", "context"}),
    "upnn": frozenset({"items"}),
    "upnn_context": frozenset({"items", "context"}),
    "nsc_upa": frozenset({"items", "context"}),
    "huapa": frozenset({"items", "context"}),
    "chim_embedding": frozenset({"items", "context"}),
    "chim_encoder": frozenset({"items", "context"}),
    "chim_attention": frozenset({"items", "context"}),
    "chim_classifier": frozenset({"items", "context"}),
    "bert_concat_text": frozenset({"items", "context"}),
    "bert_concat_word": frozenset({"items", "context"}),
    CONTEXT_AS_TEXT: frozenset({"items", "context"}),
}
BASELINES: Mapping[str, frozenset[str]] = {**SET_BASELINES, **TEXT_BASELINES}
# Those for texts without a BERT, and of them those that can be deployed.
WITHOUT_BERT = tuple(name for name in TEXT_BASELINES if not name.startswith(("bert_", "embeddings")))
BERTLESS_BASELINES = tuple(name for name in WITHOUT_BERT if name not in LOGISTIC)
# Of labels, those that read no tokens: what is counted, and what reads the words of the whole text.
WITHOUT_TOKENS = (*POPULARITY, *(name for name in LOGISTIC if name.startswith("tfidf")))
# Those whose output is one label among all: a softmax that is solved, or cut into a hierarchy.
ONE_LABEL = (*LOGISTIC, "fasttext", "fasttext_context")
# Those that can read the vectors of a language model in both directions beside the embeddings of their words.
READS_ELMO = tuple(
    f"{name}{context}" for name in ("bilstm", "bilstm_crf", "bigru", "rnn") for context in ("", "_context")
)
# Those that are counted, or fitted to convergence, and read no setting of a training.
FITTED_BASELINES = (*POPULARITY, ITEM_KNN, *HISTORY_BASELINES, *LOGISTIC, "hmm")


# Those that rank documents for a text.
RETRIEVAL_BASELINES = (*POPULARITY, "tfidf", CONTEXT_AS_TEXT)

# What is learned of whole texts, as ``kind`` of a task says it: a label, several, a number.
WHOLE_TEXTS = ("classification", "multi_label", "regression")


def baselines_of(head: str) -> list[str]:
    """The baselines that can learn what a head learns.

    Example:
        >>> [name for name in baselines_of("tagging") if "context" not in name]
        ['bilstm', 'bilstm_crf', 'bigru', 'hmm']
    """
    of_texts = [each for each in TEXT_BASELINES if each not in CHAINS]
    of_heads = {
        "classification": of_texts,
        "regression": of_texts,
        "multi_label": [each for each in of_texts if each not in ONE_LABEL],
        "tagging": [*TAG_BASELINES, CONTEXT_AS_TEXT],
        "contrastive_text": [*RETRIEVAL_BASELINES],
    }
    return of_heads.get(head, [CONTEXT_AS_TEXT])
