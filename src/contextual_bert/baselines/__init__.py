"""What users deploy without BERT, and what papers compare with: one file each."""

from contextual_bert.baselines.bag import BagOfItems
from contextual_bert.baselines.bilstm import BiLSTM, BiLSTMTagger
from contextual_bert.baselines.cnn import TextCNN
from contextual_bert.baselines.crf import LinearChainCRF
from contextual_bert.baselines.frozen_bert import ConcatText, ConcatWord
from contextual_bert.baselines.label_shares import LabelShares
from contextual_bert.baselines.logistic import LogisticClassifier
from contextual_bert.baselines.ngrams import NgramBag
from contextual_bert.baselines.popularity import ItemPopularity

__all__ = [
    "BagOfItems",
    "BiLSTM",
    "BiLSTMTagger",
    "ConcatText",
    "ConcatWord",
    "ItemPopularity",
    "LabelShares",
    "LinearChainCRF",
    "LogisticClassifier",
    "NgramBag",
    "TextCNN",
]
