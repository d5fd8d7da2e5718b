"""Using a trained model: completion of raw sets, scoring of data sets."""

from contextual_bert.inference.constraints import CONSTRAINTS, permitted_items
from contextual_bert.inference.encode import bin_names, encode_sets, placed, segment_labels, set_index
from contextual_bert.inference.pipeline import Answer, Candidate, CompletionPipeline, Slot
from contextual_bert.inference.scoring import ScoredSet, Scorer, score

__all__ = [
    "CONSTRAINTS",
    "Answer",
    "Candidate",
    "CompletionPipeline",
    "ScoredSet",
    "Scorer",
    "Slot",
    "bin_names",
    "encode_sets",
    "permitted_items",
    "placed",
    "score",
    "segment_labels",
    "set_index",
]
