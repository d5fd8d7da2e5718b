from .audit import Audit, Fault, audit
from .collators import MaskingCollator, WholeSetCollator
from .context_noise import DroppedContext, ShuffledContext
from .cooccurrence import cooccurrence_vectors
from .dataset import EveryPosition, LengthBucketSampler, SequenceBatch, SequenceDataset
from .drawn_baskets import DrawnBaskets
from .groups import Groups, group_rows
from .hashing import table_digest
from .logs import HistoryReport, HistorySettings, write_histories
from .name_lists import read_names
from .next_items import LastPosition, NextItemCollator
from .oracle import Oracle
from .policies import ReadReport, SetPolicy
from .read_settings import ReadSettings
from .readers import read_table
from .reading_notes import reading_lines
from .reviews import read_reviews
from .sets import SetTable, read_sets
from .splits import Split, check_fractions, new_split, split_by_column, split_by_customer, split_by_row, split_by_time
from .text_audit import audit_texts
from .text_masking import TextMaskingCollator
from .text_table import TextTable
from .world import StylistWorld
from .writers import check_writable, write_table

__all__ = [
    "Audit",
    "DrawnBaskets",
    "DroppedContext",
    "EveryPosition",
    "Fault",
    "Groups",
    "HistoryReport",
    "HistorySettings",
    "LastPosition",
    "LengthBucketSampler",
    "MaskingCollator",
    "NextItemCollator",
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
    "TextTable",
    "WholeSetCollator",
    "audit",
    "audit_texts",
    "check_fractions",
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
    "write_histories",
    "write_table",
]
