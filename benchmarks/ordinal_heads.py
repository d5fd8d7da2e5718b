"""Output layers for grades on frozen sentence vectors and who reads them: POPQUORN, split by comment.

Each layer stands on one hidden layer of 64 and starts at the shares of the training part. Every line is the mean over
seeds, which also draw the split; in brackets the standard error of the paired difference to classes.
Results: docs/decisions/026-ordinal-heads.md.

    python benchmarks/ordinal_heads.py --checkpoint FOLDER             # MiniLM; data from CONTEXTUAL_BERT_DATA
    python benchmarks/ordinal_heads.py --checkpoint FOLDER --rows 150  # with so many training rows
"""

import argparse
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AutoTokenizer, BertModel

from contextual_bert.models.label_heads import OrdinalClassifier, start_at_shares
from contextual_bert.models.sequence_classification import mean_of_text
from studies.popquorn import COMMENT, DEMOGRAPHICS, GRADE, READER, TEXT, read

HIDDEN, GRADES, BATCH = 64, 5, 32
RATE, THRESHOLD_RATE = 1e-3, 1e-2


class Adjacent(nn.Module):
    """One score, log p_(k+1) / p_k = w h + b_k: adjacent categories; ``has_scales`` learns a scale a grade (stereotype
    model, Anderson 1984)."""

    def __init__(self, *, has_scales: bool = False) -> None:
        super().__init__()
        self.score = nn.Linear(HIDDEN, 1, bias=False)
        self.thresholds = nn.Parameter(torch.zeros(GRADES))
        self.scales = nn.Parameter(torch.arange(GRADES) - (GRADES - 1) / 2, requires_grad=has_scales)

    def start(self, shares: Tensor) -> None:
        nn.init.zeros_(self.score.weight)
        self.thresholds.data = shares.log()

    def forward(self, hidden: Tensor) -> Tensor:
        return (self.score(hidden) * self.scales + self.thresholds).log_softmax(dim=-1)


class Continuation(nn.Module):
    """Pr(y > k | y >= k) = sigmoid(w_k h + b_k): continuation ratios, CORN's probabilities (Shi et al. 2021)."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = nn.Linear(HIDDEN, GRADES - 1)

    def start(self, shares: Tensor) -> None:
        nn.init.zeros_(self.steps.weight)
        reached = shares.flip(0).cumsum(0).flip(0)
        self.steps.bias.data = torch.logit(reached[1:] / reached[:-1])

    def forward(self, hidden: Tensor) -> Tensor:
        steps = self.steps(hidden)
        passed = functional.pad(functional.logsigmoid(steps).cumsum(dim=1), (1, 0))
        return passed + functional.pad(functional.logsigmoid(-steps), (0, 1))


HEADS: dict[str, Any] = {
    "classes": lambda: nn.Linear(HIDDEN, GRADES),
    "cumulative": lambda: OrdinalClassifier(HIDDEN, GRADES),
    "continuation": Continuation,
    "adjacent": Adjacent,
    "stereotype": lambda: Adjacent(has_scales=True),
}


def sentence_vectors(texts: list[str], checkpoint: Path) -> Tensor:
    """(texts, hidden): the mean over each text of a frozen BERT, at a length that suits a linear layer."""
    tokenizer, bert = AutoTokenizer.from_pretrained(checkpoint), BertModel.from_pretrained(checkpoint).eval()
    found: list[Tensor] = []
    for start in range(0, len(texts), 32):
        inputs = tokenizer(texts[start : start + 32], padding=True, truncation=True, max_length=64, return_tensors="pt")
        with torch.no_grad():
            found.append(mean_of_text(bert(**inputs).last_hidden_state, inputs["attention_mask"]))
    vectors = functional.normalize(torch.cat(found), dim=1)
    return vectors * vectors.shape[1] ** 0.5 / 2


def measured(name: str, data: dict[str, Any], *, seed: int, num_rows: int | None) -> list[float]:
    """Cross-entropy, accuracy in %, MAE and RMSE on the test part of the epoch that is best on the validation part."""
    draw = np.random.default_rng(seed)
    comments = draw.permutation(np.unique(data["comment"]))
    place = dict(zip(comments.tolist(), np.arange(len(comments)) / len(comments), strict=True))
    places = np.array([place[each] for each in data["comment"].tolist()])
    bounds = ((0, 0.6), (0.6, 0.8), (0.8, 1))
    parts = [torch.from_numpy(np.flatnonzero((places >= low) & (places < high))) for low, high in bounds]
    if num_rows is not None:
        parts[0] = parts[0][torch.from_numpy(draw.permutation(len(parts[0]))[:num_rows])]
        parts[1] = parts[1][torch.from_numpy(draw.permutation(len(parts[1]))[: max(num_rows // 3, 100)])]
    torch.manual_seed(seed)
    inputs, grades, head = data["inputs"], data["grades"], HEADS[name]()
    counts = torch.bincount(grades[parts[0]], minlength=GRADES)
    if name in ("classes", "cumulative"):
        start_at_shares(head, counts)
    else:
        head.start((counts + 0.5) / (counts + 0.5).sum())
    model = nn.Sequential(nn.Linear(inputs.shape[1], HIDDEN), nn.ReLU(), nn.Dropout(0.3), head)
    named = [(key, weight) for key, weight in model.named_parameters() if weight.requires_grad]
    groups = [{"params": [weight for key, weight in named if "thresholds" not in key], "lr": RATE}]
    own = [weight for key, weight in named if "thresholds" in key]
    groups += [{"params": own, "lr": THRESHOLD_RATE, "weight_decay": 0.0}] if own else []
    optimizer, best, found, worse = torch.optim.AdamW(groups, weight_decay=0.01), float("inf"), [0.0], 0
    while worse < 4:
        model.train()
        for rows in parts[0][torch.randperm(len(parts[0]))].split(BATCH if num_rows is not None else 2 * BATCH):
            optimizer.zero_grad()
            functional.cross_entropy(model(inputs[rows]), grades[rows]).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            reached = float(functional.cross_entropy(model(inputs[parts[1]]), grades[parts[1]]))
            worse = worse + 1 if reached > best - 1e-5 else 0
            if worse == 0:
                logits, true = model(inputs[parts[2]]), grades[parts[2]]
                errors = (logits.argmax(dim=1) - true).abs().double()
                accuracy, loss = 100 * float((errors == 0).double().mean()), functional.cross_entropy(logits, true)
                best, found = reached, [float(loss), accuracy, float(errors.mean()), float((errors**2).mean().sqrt())]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", type=Path, required=True, help="folder of a BERT")
    parser.add_argument("--rows", type=int, help="training rows; all unless given")
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--heads", default="classes,cumulative,continuation", help=f"of {', '.join(HEADS)}")
    options = parser.parse_args()
    table = read(Path(os.environ["CONTEXTUAL_BERT_DATA"]), Path())
    texts, places = np.unique(np.array(table[TEXT].to_pylist(), dtype=object), return_inverse=True)
    who: list[Tensor] = []
    for column in (READER, *DEMOGRAPHICS):
        values = table[column].fill_null("?").to_numpy(zero_copy_only=False).astype(str)
        who.append(functional.one_hot(torch.from_numpy(np.unique(values, return_inverse=True)[1])).float())
    vectors = sentence_vectors(texts.tolist(), options.checkpoint)[torch.from_numpy(places)]
    data = {
        "inputs": torch.cat([vectors, 2 * torch.cat(who, dim=1)], dim=1),
        "grades": torch.from_numpy(table[GRADE].to_numpy() - 1),
        "comment": table[COMMENT].to_numpy(zero_copy_only=False).astype(str),
    }
    found: dict[str, np.ndarray] = {}
    for name in options.heads.split(","):
        runs = [measured(name, data, seed=seed, num_rows=options.rows) for seed in range(options.seeds)]
        found[name] = np.array(runs)
        means = "CE {:.4f}, accuracy {:.2f}%, MAE {:.4f}, RMSE {:.4f}".format(*found[name].mean(axis=0))
        apart = found[name] - found[options.heads.split(",")[0]]
        errors = apart.std(axis=0, ddof=1) / options.seeds**0.5
        listed = ", ".join(f"{mean:+.4f} ({error:.4f})" for mean, error in zip(apart.mean(axis=0), errors, strict=True))
        print(f"{name}: {means}; difference {listed}", flush=True)


if __name__ == "__main__":
    main()
