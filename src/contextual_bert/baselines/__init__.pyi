from .bag import BagOfItems
from .bilstm import BiLSTM, BiLSTMTagger
from .cnn import TextCNN
from .crf import LinearChainCRF
from .frozen_bert import ConcatText, ConcatWord
from .item_knn import ItemKNN
from .label_shares import LabelShares
from .logistic import LogisticClassifier
from .ngrams import NgramBag
from .popularity import ItemPopularity

__all__ = [
    "BagOfItems",
    "BiLSTM",
    "BiLSTMTagger",
    "ConcatText",
    "ConcatWord",
    "ItemKNN",
    "ItemPopularity",
    "LabelShares",
    "LinearChainCRF",
    "LogisticClassifier",
    "NgramBag",
    "TextCNN",
]
