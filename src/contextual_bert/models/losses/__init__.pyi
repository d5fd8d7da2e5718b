from .gbce import gbce
from .item_sampler import DrawnItems, ItemSampler
from .sampled_loss import SampledLoss
from .sampled_softmax import sampled_softmax

__all__ = ["DrawnItems", "ItemSampler", "SampledLoss", "gbce", "sampled_softmax"]
