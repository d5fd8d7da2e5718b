"""From files to batches: reading sets, splitting them without leaks, and masking whole batches at once."""

from contextual_bert.data.audit import Audit, Fault, audit
from contextual_bert.data.collators import MaskingCollator
from contextual_bert.data.context_dropout import DroppedContext
from contextual_bert.data.cooccurrence import cooccurrence_vectors
from contextual_bert.data.dataset import EveryPosition, SequenceBatch, SequenceDataset
from contextual_bert.data.digests import table_digest
from contextual_bert.data.groups import Groups, group_rows
from contextual_bert.data.name_lists import read_names
from contextual_bert.data.oracle import Oracle
from contextual_bert.data.policies import ReadReport, SetPolicy
from contextual_bert.data.read_settings import ReadSettings
from contextual_bert.data.readers import read_table
from contextual_bert.data.reading_notes import reading_lines
from contextual_bert.data.reviews import read_reviews
from contextual_bert.data.samplers import LengthBucketSampler
from contextual_bert.data.sets import SetTable, read_sets
from contextual_bert.data.shuffling import ShuffledContext
from contextual_bert.data.splits import (
    Split,
    new_split,
    split_by_column,
    split_by_customer,
    split_by_row,
    split_by_time,
)
from contextual_bert.data.text_audit import audit_texts
from contextual_bert.data.text_masking import TextMaskingCollator
from contextual_bert.data.world import StylistWorld
from contextual_bert.data.writers import check_writable, write_table

__all__ = [
    "Audit",
    "DroppedContext",
    "EveryPosition",
    "Fault",
    "Groups",
    "LengthBucketSampler",
    "MaskingCollator",
    "Oracle",
    "ReadReport",
    "ReadSettings",
    "SequenceBatch",
    "SequenceDataset",
    "SetPolicy",
    "SetTable",
    "ShuffledContext",
    "Split",
    "StylistWorld",
    "TextMaskingCollator",
    "audit",
    "audit_texts",
    "check_writable",
    "cooccurrence_vectors",
    "group_rows",
    "new_split",
    "read_names",
    "read_reviews",
    "read_sets",
    "read_table",
    "reading_lines",
    "split_by_column",
    "split_by_customer",
    "split_by_row",
    "split_by_time",
    "table_digest",
    "write_table",
]
