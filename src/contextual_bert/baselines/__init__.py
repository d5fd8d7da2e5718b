"""What users deploy without BERT: one file each."""

from contextual_bert.baselines.bag import BagOfItems

__all__ = ["BagOfItems"]
