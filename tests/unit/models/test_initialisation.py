"""Weights start as BERT's: normal with 0.02, biases zero. With PyTorch's own start a [GSU] model sat on a plateau."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from contextual_bert.conditioning import METHODS, BlockSlot, Sizes, register_method
from contextual_bert.conditioning.film import ScaleAndShift
from contextual_bert.conditioning.global_state import GlobalState
from contextual_bert.conditioning.multi_attribute import ToModelWidth
from contextual_bert.context import Categorical, ContextSchema, MultiCategorical, Vector
from contextual_bert.models import ContextualBertConfig, ContextualBertForMaskedLM

SCHEMA = ContextSchema(
    features=(
        Categorical(name="sex", values=tuple(map(str, range(50)))),
        MultiCategorical(name="brands", values=tuple(map(str, range(50)))),
        Vector(name="style", size=40),
    )
)


def make(method_name: str, **fields: object) -> ContextualBertForMaskedLM:
    config = ContextualBertConfig.paper(method_name, schema=SCHEMA, vocab_size=200, **fields)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return ContextualBertForMaskedLM(config)


def check_initialised(model: nn.Module) -> int:
    """Every Linear, Embedding and LayerNorm; how many there were."""
    count = 0
    for name, module in model.named_modules():
        weight = getattr(module, "weight", None)
        if weight is None:
            continue
        count += 1
        weight = weight.detach()
        if isinstance(module, nn.LayerNorm):
            assert bool((weight == 1).all()), name
        elif isinstance(module, ScaleAndShift):
            assert not bool(weight.any()), name
        else:
            scale = module.in_features**-0.5 if isinstance(module, ToModelWidth) else 0.02
            assert abs(float(weight.mean())) < 4 * scale / weight.numel() ** 0.5, name
            assert float(weight.std()) == pytest.approx(scale, rel=4 / (2 * weight.numel()) ** 0.5), name
        bias = getattr(module, "bias", None)
        assert bias is None or not bool(bias.any()), name
    return count


@pytest.mark.parametrize("method_name", sorted(METHODS))
@pytest.mark.parametrize("is_tied", [True, False])
def test_from_scratch(method_name: str, is_tied: bool) -> None:
    model = make(method_name, tie_word_embeddings=is_tied)
    assert check_initialised(model) > 20


@pytest.mark.parametrize("method_name", sorted(METHODS))
def test_what_a_checkpoint_lacks(method_name: str, tmp_path: Path) -> None:
    model = make(method_name)
    model.save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    weights = load_file(path)
    new = {key for key in weights if "conditioning." in key or "context_encoder." in key}
    kept = {key: torch.full_like(weight, 0.5) for key, weight in weights.items() if key not in new}
    save_file(kept, path, metadata={"format": "pt"})
    loaded, information = ContextualBertForMaskedLM.from_pretrained(tmp_path, output_loading_info=True)
    assert set(information["missing_keys"]) == new
    state = loaded.state_dict()
    assert all(bool((state[key] == 0.5).all()) for key in kept), "what the checkpoint has is left alone"
    fresh = [
        module
        for name, module in loaded.named_modules()
        if name.endswith(("conditioning", "context_encoder")) and sum(1 for _ in module.parameters())
    ]
    assert sum(check_initialised(module) for module in fresh) >= (len(new) > 0)


def test_the_states_layers_are_among_them() -> None:
    state = make("global_state_update").bert.encoder.conditioning
    assert check_initialised(state) == 2 + 3 * 3


class Gate(nn.Linear):
    def initialise(self, standard_deviation: float) -> None:
        nn.init.constant_(self.weight, standard_deviation / 2)
        nn.init.ones_(self.bias)


class GatedRead(BlockSlot):
    point = "read"

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.gate = Gate(sizes.hidden_size, sizes.hidden_size)

    def forward(self, hidden: Tensor, state: Tensor) -> Tensor:
        return hidden + self.gate(state).unsqueeze(1)


class Gated(GlobalState):
    name = "test_gated"

    def block(self, sizes: Sizes, layer: int) -> BlockSlot:
        return GatedRead(sizes)


@pytest.fixture
def gated() -> Iterator[str]:
    register_method(Gated)
    yield Gated.name
    del METHODS[Gated.name]


def test_a_leaf_that_knows_better_is_asked(gated: str) -> None:
    for layer in make(gated, initializer_range=0.5).bert.encoder.layer:
        assert bool((layer.conditioning.gate.weight == 0.25).all())
        assert bool((layer.conditioning.gate.bias == 1).all())


def test_it_leaves_loaded_weights_alone(gated: str, tmp_path: Path) -> None:
    model = make(gated)
    gate = model.bert.encoder.layer[0].conditioning.gate
    with torch.no_grad():
        gate.weight.fill_(7)
    model.save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    weights = load_file(path)
    del weights["bert.encoder.layer.0.conditioning.gate.bias"]  # so that the module is asked again
    save_file(weights, path, metadata={"format": "pt"})
    loaded = ContextualBertForMaskedLM.from_pretrained(tmp_path).bert.encoder.layer[0].conditioning.gate
    assert bool((loaded.weight == 7).all())
    assert bool((loaded.bias == 1).all())


@pytest.mark.parametrize("conditioning", ["global_state", "global_state_update", "state_flow"])
def test_the_read_of_the_state_starts_quiet_whatever_the_scale_of_the_rest(conditioning: str) -> None:
    features = [{"name": "a", "kind": "categorical", "num_embeddings": 5, "vector_size": 0, "embedding_size": 16}]
    loud = ContextualBertConfig(
        vocab_size=50,
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        conditioning=conditioning,
        context_features=features,
        initializer_range=0.1,
    )
    torch.manual_seed(0)
    layer = ContextualBertForMaskedLM(loud).bert.encoder.layer[0]
    assert layer.conditioning.value.weight.std().item() == pytest.approx(0.02, rel=0.05)
    assert layer.attention.self.value.weight.std().item() == pytest.approx(0.1, rel=0.05)


def test_film_starts_as_none() -> None:
    film, none = make("film").eval(), make("none").eval()
    none.load_state_dict(film.state_dict(), strict=False)
    ids = torch.tensor([[5, 1, 7], [9, 8, 1]])
    context = {"sex": torch.tensor([3, 5]), "brands": torch.tensor([[4], [6]]), "style": torch.ones(2, 41)}
    torch.testing.assert_close(film(ids, context=context).logits, none(ids).logits)
