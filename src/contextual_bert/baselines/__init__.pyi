from .bag import BagOfItems
from .bigru import BiGRU, BiGRUTagger
from .bilstm import BiLSTM, BiLSTMTagger
from .chim import CHIM
from .cnn import TextCNN
from .crf import LinearChainCRF
from .fasttext import FastText
from .frozen_bert import ConcatText, ConcatWord
from .g_top_freq import GTopFreq
from .gp_top_freq import GPTopFreq
from .hidden_markov import HiddenMarkovTagger
from .hierarchical import HierarchicalLSTM
from .history_baseline import HistoryBaseline
from .item_knn import ItemKNN
from .label_shares import LabelShares
from .logistic import LogisticClassifier
from .ngrams import NgramBag
from .p_top_freq import PTopFreq
from .popularity import ItemPopularity
from .rnn import LastStateRNN
from .tifu_knn import TIFUKNN
from .up_cf import UPCF
from .upnn import UPNN

__all__ = [
    "CHIM",
    "TIFUKNN",
    "UPCF",
    "UPNN",
    "BagOfItems",
    "BiGRU",
    "BiGRUTagger",
    "BiLSTM",
    "BiLSTMTagger",
    "ConcatText",
    "ConcatWord",
    "FastText",
    "GPTopFreq",
    "GTopFreq",
    "HiddenMarkovTagger",
    "HierarchicalLSTM",
    "HistoryBaseline",
    "ItemKNN",
    "ItemPopularity",
    "LabelShares",
    "LastStateRNN",
    "LinearChainCRF",
    "LogisticClassifier",
    "NgramBag",
    "PTopFreq",
    "TextCNN",
]
