"""fastText's classifier: the mean over the rows of whole words, of their character n-grams and of word bigrams.

Pieces of a tokenizer are put together to words again, and only the rows that a batch reads have a gradient. With many
labels the output is a hierarchical softmax. It knows no tokenizer, only the strings of its ids. Papers: Joulin et al.
(2017) for the classifier, Bojanowski et al. (2017) for the character n-grams, Huffman (1952) for the tree.
"""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn
from torch.nn import functional

from contextual_bert.baselines.bag import IGNORED_LABEL
from contextual_bert.baselines.label_model import TextClassifier, mean_over_labels, real_positions
from contextual_bert.baselines.ngrams import BIGRAM_FACTOR, character_ngrams, fnv1a
from contextual_bert.context import FeatureLayout
from contextual_bert.errors import ConfigurationError

# Forward and backward of the output on one core, width 100, labels as 1 / sqrt(rank): the tree took 103 ms for 4,096
# texts and 1,000 labels, a full softmax 164 ms (500 labels: 85 and 78). For 32 texts it was 1.0 and 0.8 ms (2,000:
# 0.9 and 0.9).
HIERARCHICAL_FROM = 1000
NUM_BUCKETS = 262_144
MOST_WORDS = 1 << 20  # that are remembered with their n-grams
GOES_ON = "##"
MIXERS = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)  # of splitmix64


class HierarchicalSoftmax(nn.Module):
    """Log-probabilities of many labels by a Huffman tree: a label is a path of turns, and a frequent one a short path.

    Formula:
        p(k) = product over the inner nodes n on the path to k of sigmoid(s_kn (w_n h + b_n))

    Symbols:
        s_kn 1 where the path turns right at n, else -1. The probabilities of all labels add up to 1.

    Shapes:
        hidden (batch, in_features); log-probabilities (batch, out_features).

    Args:
        in_features: width of h.
        out_features: labels, two or more. Until ``grow`` they count as equally frequent.

    Relation to its siblings:
        In place of the linear layer of a ``TextHead``. A training step costs the nodes of the paths, not all labels;
        all probabilities cost more than those of a linear layer.

    Reference:
        Joulin et al. (2017), section 2.1; Huffman (1952), "A Method for the Construction of Minimum-Redundancy Codes".

    Example:
        >>> tree = HierarchicalSoftmax(4, 3)
        >>> tree.grow([6, 3, 1], at_shares=True)
        >>> tree(torch.randn(1, 4)).exp()
        tensor([[0.5652, 0.3043, 0.1304]], grad_fn=<ExpBackward0>)
    """

    parents: Tensor
    turns: Tensor
    is_on_path: Tensor

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        if out_features < 2:
            raise ConfigurationError(
                "is too few for a tree", setting="out_features", value=out_features, fix="Give 2 labels or more."
            )
        self.in_features, self.out_features = in_features, out_features
        self.weight = nn.Parameter(torch.zeros(out_features - 1, in_features))  # zeros, as in fastText
        self.bias = nn.Parameter(torch.zeros(out_features - 1))
        # Of each label, then of each inner node, up to the root: its parent * 2, and 1 more where it is on the right.
        self.register_buffer("parents", torch.zeros(2 * out_features - 1, dtype=torch.int64))
        self.grow([1] * out_features)

    def grow(self, counts: Sequence[float] | Tensor, *, at_shares: bool = False) -> None:
        """Make the tree of Huffman.

        Args:
            counts: how often each label occurs in the training part, in the order of the ids.
            at_shares: begin with the shares of the labels, (n_k + 1/2) / (n + K/2), whatever is read.
        """
        weights = (torch.as_tensor(counts, dtype=torch.float64) + 0.5).tolist()
        if len(weights) != self.out_features or min(weights) < 0.5:
            raise ConfigurationError(
                f"counts={counts!r:.80} for {self.out_features} labels", fix="Give each label how often it occurs."
            )
        parents, biases = np.full(2 * self.out_features - 1, -1, dtype=np.int64), np.zeros(self.out_features - 1)
        open_nodes = [(weight, node) for node, weight in enumerate(weights)]
        heapq.heapify(open_nodes)
        for node in range(self.out_features - 1):
            (low, left), (high, right) = heapq.heappop(open_nodes), heapq.heappop(open_nodes)
            parents[left], parents[right] = 2 * node, 2 * node + 1
            biases[node] = np.log(high / low)
            heapq.heappush(open_nodes, (low + high, self.out_features + node))
        with torch.no_grad():
            self.parents.copy_(torch.from_numpy(parents))
            if at_shares:
                self.weight.zero_()
                self.bias.copy_(torch.from_numpy(biases))
        self._find_paths()

    def _find_paths(self) -> None:
        """Set ``turns`` (labels, depth): node * 2, and 1 more for a turn to the right; then zeros."""
        parents = self.parents.cpu().numpy()
        steps, place = [], np.arange(self.out_features)
        while (place >= 0).any():
            found = np.where(place >= 0, parents[place], -1)
            steps.append(found)
            place = np.where(found >= 0, self.out_features + found // 2, -1)
        turns = np.stack(steps, axis=1)[:, :-1]  # the last are those of the root, which has no parent
        device = self.parents.device
        self.register_buffer("turns", torch.from_numpy(turns.clip(min=0)).to(device), persistent=False)
        self.register_buffer("is_on_path", torch.from_numpy(turns >= 0).to(device), persistent=False)

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        super()._load_from_state_dict(*args, **kwargs)
        self._find_paths()

    def forward(self, hidden: Tensor) -> Tensor:
        """Log-probabilities of all labels, exact and in float32."""
        scores = functional.linear(hidden, self.weight, self.bias).float()
        ways = torch.stack([functional.logsigmoid(-scores), functional.logsigmoid(scores)], dim=2).flatten(1)
        total = ways.new_zeros(len(hidden), self.out_features)
        for turns, is_on_path in zip(self.turns.unbind(dim=1), self.is_on_path.unbind(dim=1), strict=True):
            total = total + ways[:, turns].masked_fill(~is_on_path, 0.0)
        return total

    def summed_loss(self, hidden: Tensor, labels: Tensor) -> Tensor:
        """The sum of the cross-entropies of the labels but -100, from the nodes on their paths alone."""
        is_asked = labels != IGNORED_LABEL
        hidden, labels = hidden[is_asked], labels[is_asked]
        turns, is_on_path = self.turns[labels], self.is_on_path[labels]
        nodes = turns // 2
        scores = torch.bmm(functional.embedding(nodes, self.weight), hidden.unsqueeze(2)).squeeze(2).float()
        signed = (scores + functional.embedding(nodes, self.bias.unsqueeze(1)).squeeze(2)) * (2 * (turns % 2) - 1)
        return -functional.logsigmoid(signed).masked_fill(~is_on_path, 0.0).sum()


@dataclass(frozen=True, eq=False)
class ReadWords:
    """The words of a batch: which rows each has, and which words and bigrams each text has.

    Shapes: rows (all rows of the bags), starts (bags,), members (of all texts), member_starts and sizes (texts,).

    Args:
        rows: the rows of the bags, one bag behind the other: each word that occurs once, then the bigrams.
        starts: where each bag begins.
        members: the bags of the texts, one text behind the other.
        member_starts: where each text begins in ``members``.
        sizes: how many rows a text has.
    """

    rows: NDArray[np.int64]
    starts: NDArray[np.int64]
    members: NDArray[np.int64]
    member_starts: NDArray[np.int64]
    sizes: NDArray[np.int64]


class WordRows:
    """The rows of words, found once a word and then looked up, a batch at a time.

    Args:
        vocabulary: the string of each id; one that begins with "##" goes on a word.
        num_buckets: rows, which words, n-grams and bigrams share by their hashes.

    Example:
        >>> words = WordRows(["[PAD]", "coat", "##s"], 50)
        >>> found = words.read(np.array([[1, 2, 1]]), np.array([[True, True, True]]))
        >>> len(words.hashes), int(found.sizes[0]) == len(character_ngrams("coats") + character_ngrams("coat")) + 3
        (2, True)
    """

    def __init__(self, vocabulary: Sequence[str], num_buckets: int) -> None:
        self.vocabulary, self.num_buckets = list(vocabulary), num_buckets
        self.goes_on = np.array([text.startswith(GOES_ON) and len(text) > len(GOES_ON) for text in vocabulary])
        self._forget()

    def _forget(self) -> None:
        self.keys, self.slots = np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int64)
        self.hashes, self.rows = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        self.bounds = np.zeros(1, dtype=np.int64)

    def read(self, ids: NDArray[np.int64], is_read: NDArray[np.bool_]) -> ReadWords:
        """Find the words of texts, and their rows.

        Args:
            ids: (texts, length), a token each.
            is_read: (texts, length). A word and a bigram do not reach across a token that is not read.
        """
        texts, places = is_read.nonzero()
        pieces = ids[texts, places]
        follows = np.zeros(len(pieces), dtype=bool)
        follows[1:] = (texts[1:] == texts[:-1]) & (places[1:] == places[:-1] + 1)
        firsts = np.flatnonzero(~(follows & self.goes_on[pieces]))
        slots = self._slots(pieces, firsts)
        used, words = np.unique(slots, return_inverse=True)
        rows, lengths = _stretches(self.rows, self.bounds, used)
        second = np.flatnonzero(follows[firsts])  # word that follows another
        pairs = (self.hashes[slots[second - 1]] * BIGRAM_FACTOR + self.hashes[slots[second]]) % self.num_buckets
        bags = np.concatenate([lengths, np.ones(len(pairs), dtype=np.int64)])
        of_text = np.concatenate([texts[firsts], texts[firsts[second]]])
        order = of_text.argsort(kind="stable")
        members = np.concatenate([words, len(used) + np.arange(len(pairs))])[order]
        member_starts = np.searchsorted(of_text[order], np.arange(len(ids)))
        sizes = np.bincount(of_text, weights=bags[np.concatenate([words, len(used) + np.arange(len(pairs))])])
        sizes = np.pad(sizes, (0, len(ids) - len(sizes))).astype(np.int64)
        return ReadWords(np.concatenate([rows, pairs]), bags.cumsum() - bags, members, member_starts, sizes)

    def _slots(self, pieces: NDArray[np.int64], firsts: NDArray[np.int64]) -> NDArray[np.int64]:
        """(words,): the place of each word among those that are known; words that are new are read."""
        lengths = np.diff(np.append(firsts, len(pieces)))
        inside = np.arange(len(pieces)) - np.repeat(firsts, lengths)
        keys = np.add.reduceat(_mixed(pieces << 16 | inside), firsts) if len(firsts) else self.keys[:0]
        distinct, one, back = np.unique(keys, return_index=True, return_inverse=True)
        if len(self.keys) + len(distinct) > MOST_WORDS:
            self._forget()
        place = np.searchsorted(self.keys, distinct).clip(max=max(0, len(self.keys) - 1))
        is_new = self.keys[place] != distinct if len(self.keys) else np.ones(len(distinct), dtype=bool)
        if is_new.any():
            new = one[is_new]
            self._add([self._text(pieces[firsts[word] : firsts[word] + lengths[word]]) for word in new])
            where = np.searchsorted(self.keys, distinct[is_new])
            self.slots = np.insert(self.slots, where, len(self.hashes) - len(new) + np.arange(len(new)))
            self.keys = np.insert(self.keys, where, distinct[is_new])
            place = np.searchsorted(self.keys, distinct)
        return self.slots[place][back]

    def _text(self, pieces: NDArray[np.int64]) -> str:
        joined = "".join(self.vocabulary[piece][len(GOES_ON) if self.goes_on[piece] else 0 :] for piece in pieces)
        return joined.encode("utf-8", "surrogateescape").decode("utf-8", "replace")

    def _add(self, texts: Sequence[str]) -> None:
        # A word that itself begins with "##" is marked as others are.
        ngrams = [[text, *character_ngrams(text)] if not text.startswith(GOES_ON) else [text] for text in texts]
        hashes = fnv1a([ngram for found in ngrams for ngram in found])
        lengths = np.array([len(found) for found in ngrams])
        self.hashes = np.concatenate([self.hashes, hashes[lengths.cumsum() - lengths]])
        self.rows = np.concatenate([self.rows, hashes % self.num_buckets])
        self.bounds = np.concatenate([self.bounds, self.bounds[-1] + lengths.cumsum()])


class SumOfRows(torch.autograd.Function):
    """The sum of the rows of each text, with a sparse gradient in which each row that was read stands once.

    ``EmbeddingBag`` in two levels gives the same, with a gradient that lists a row as often as it was read.

    Shapes:
        weight (rows, hidden) -> (texts, hidden).

    Example:
        >>> found = WordRows(["[PAD]", "a"], 4).read(np.array([[1, 0]]), np.array([[True, False]]))
        >>> weight = torch.ones(4, 2, requires_grad=True)
        >>> float(SumOfRows.apply(weight, found)[0, 0]) == len(found.rows)
        True
    """

    @staticmethod
    def forward(ctx: Any, weight: Tensor, found: ReadWords) -> Tensor:
        """Sum up the bags, then the texts."""
        ctx.found, ctx.size = found, weight.shape
        rows, starts, members, member_starts = _tensors(found, weight.device)
        bags = functional.embedding_bag(rows, weight, starts, mode="sum")
        return functional.embedding_bag(members, bags, member_starts, mode="sum")

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        """Hand the gradient of each text to its bags, and that of each bag to its rows."""
        (gradient,), found = gradients, ctx.found
        is_used = np.zeros(ctx.size[0], dtype=bool)
        is_used[found.rows] = True
        used = np.flatnonzero(is_used)
        place = np.zeros(ctx.size[0], dtype=np.int64)
        place[used] = np.arange(len(used))
        of_bags = _transposed_product(found.members, found.member_starts, gradient, len(found.starts))
        values = _transposed_product(place[found.rows], found.starts, of_bags, len(used))
        indices = torch.from_numpy(used).unsqueeze(0).to(values.device)
        return torch.sparse_coo_tensor(indices, values, ctx.size, is_coalesced=True, check_invariants=False), None


def _tensors(found: ReadWords, device: torch.device) -> tuple[Tensor, ...]:
    arrays = (found.rows, found.starts, found.members, found.member_starts)
    return tuple(torch.from_numpy(values).to(device) for values in arrays)


def _transposed_product(members: NDArray[np.int64], starts: NDArray[np.int64], gradient: Tensor, count: int) -> Tensor:
    """(count, hidden): for each member the sum of the gradients of the bags that it is in, as often as it is."""
    bounds = np.append(starts, len(members))
    if gradient.device.type == "cpu":
        bags = sparse.csr_matrix((np.ones(len(members), dtype=np.float32), members, bounds), (len(starts), count))
        return torch.from_numpy(bags.T @ gradient.float().contiguous().numpy())
    of_bag = torch.from_numpy(np.repeat(np.arange(len(starts)), np.diff(bounds))).to(gradient.device)
    places = torch.from_numpy(members).to(gradient.device)
    return gradient.new_zeros(count, gradient.shape[1]).index_add_(0, places, gradient[of_bag])


def _mixed(counter: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return hashes of 64 bits."""
    increment, first, second = (np.uint64(each) for each in MIXERS)
    mixed = counter.astype(np.uint64) + increment
    mixed = (mixed ^ (mixed >> np.uint64(30))) * first
    mixed = (mixed ^ (mixed >> np.uint64(27))) * second
    return mixed ^ (mixed >> np.uint64(31))


def _stretches(
    values: NDArray[np.int64], bounds: NDArray[np.int64], which: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return some stretches of an array, one behind the other, and their lengths."""
    starts, lengths = bounds[which], bounds[which + 1] - bounds[which]
    shifts = np.repeat(starts - (lengths.cumsum() - lengths), lengths)
    return values[np.arange(len(shifts)) + shifts], lengths


class FastText(TextClassifier):
    """A text's label from the mean over the rows of its words, their character n-grams and its word bigrams.

    Formula:
        h = mean(E_r for r in R);  logits = W [h ; c] + b, or with many labels ``HierarchicalSoftmax`` of [h ; c]

    Symbols:
        R the rows of a text: of each word one of its own and those of its n-grams, and one of each bigram; all are
        hashed and share ``num_buckets`` rows. The n-grams of w are those of <w>, 3 to 6 long.

    Shapes:
        input_ids, attention_mask (batch, length); labels (batch,), -100 where nothing is asked; logits (batch, labels).

    Args:
        vocabulary: the string of each id, in the order of the ids, as ``written_pieces`` gives it: one that begins with
            "##" goes on a word, so whole words are read whatever the tokenizer cuts. Of [UNK] nothing is known.
        num_labels: labels, or 1 for regression. From ``HIERARCHICAL_FROM``, 1,000, on the output is a hierarchical
            softmax.
        layout: the context's features, empty for none.
        conditioning: "none" or "concat".
        reserved_ids: ids that are not read; neither a word nor a bigram reaches across one.
        hidden_size: width of the rows and of h.
        num_buckets: rows. fastText has 2 million beside those of the words; a run keeps them all on the disk.
        dropout: probability of dropping a component of h; fastText has none.

    Raises:
        ConfigurationError: as ``TextHead``; no buckets.

    Relation to its siblings:
        ``NgramBag`` reads the pieces of the tokenizer, takes the mean of the means of the words, and changes all rows
        in a step. Here the gradient of the rows is sparse: the Trainer of this package changes those that were read.
        While a model with a hierarchical softmax is trained, it gives the loss and no logits.

    Reference:
        Joulin et al. (2017), "Bag of Tricks for Efficient Text Classification"; Bojanowski et al. (2017), "Enriching
        Word Vectors with Subword Information".

    Example:
        >>> model = FastText(["[PAD]", "red", "coat", "##s"], num_labels=2, reserved_ids=[0], num_buckets=50)
        >>> model(input_ids=torch.tensor([[1, 2, 3], [2, 0, 0]]))["logits"].shape
        torch.Size([2, 2])
    """

    def __init__(
        self,
        vocabulary: Sequence[str],
        *,
        num_labels: int,
        layout: Sequence[FeatureLayout] = (),
        conditioning: str = "none",
        reserved_ids: Sequence[int] = (),
        hidden_size: int = 100,
        num_buckets: int = NUM_BUCKETS,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(
            hidden_size,
            num_labels=num_labels,
            layout=layout,
            conditioning=conditioning,
            reserved_ids=reserved_ids,
            dropout=dropout,
        )
        if num_buckets < 1:
            raise ConfigurationError(
                "is not allowed",
                setting="num_buckets",
                value=num_buckets,
                fix="Give 1 or more, the more the fewer words and n-grams collide.",
            )
        self.rows = nn.EmbeddingBag(num_buckets, hidden_size, mode="sum", sparse=True)
        nn.init.uniform_(self.rows.weight, -1 / hidden_size, 1 / hidden_size)  # as fastText
        self.words = WordRows(vocabulary, num_buckets)
        if num_labels >= HIERARCHICAL_FROM:
            self.head.output = HierarchicalSoftmax(self.head.output.in_features, num_labels)

    def text_vectors(self, input_ids: Tensor, is_read: Tensor) -> Tensor:
        found = self.words.read(input_ids.cpu().numpy(), is_read.cpu().numpy())
        if not len(found.rows):
            return self.rows.weight.new_zeros(len(input_ids), self.rows.embedding_dim)
        total: Tensor = cast(Any, SumOfRows.apply)(self.rows.weight, found)
        return total / torch.from_numpy(found.sizes).clamp(min=1).unsqueeze(1).to(total)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        context: Mapping[str, Tensor] | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
        characters: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """Logits and, with labels, the loss; in training with a hierarchical softmax the loss alone."""
        tree = self.head.output
        if not self.training or labels is None or not isinstance(tree, HierarchicalSoftmax):
            given = (input_ids, attention_mask, context, token_type_ids, labels, num_items_in_batch, characters)
            return super().forward(*given)
        is_read = self.read_positions(input_ids, real_positions(input_ids, attention_mask))
        hidden = self.head.inputs(self.text_vectors(input_ids, is_read), context)
        return {"loss": mean_over_labels(tree.summed_loss(hidden, labels), labels, num_items_in_batch)}
