import pyarrow as pa
import pytest
import torch
from torch import nn

from contextual_bert.context import ContextEncoder, FeatureLayout, encode_records, encode_table, infer_schema
from contextual_bert.errors import ConfigurationError, SchemaError
from contextual_bert.models import ContextualBertConfig, ContextualBertForMaskedLM


@pytest.fixture
def encoder(schema) -> ContextEncoder:
    torch.manual_seed(0)
    return ContextEncoder(schema.layout)


@pytest.fixture
def context(schema, table) -> dict[str, torch.Tensor]:
    return encode_table(schema, table).tensors


def test_shapes_and_names(encoder, schema, context):
    embedded = encoder(context)
    assert embedded.vector.shape == (5, schema.context_size) == (5, encoder.context_size)
    assert [feature.shape for feature in embedded.features] == [(5, shape.embedding_size) for shape in schema.layout]
    assert torch.equal(embedded.vector, torch.cat(embedded.features, dim=-1))
    assert list(encoder.state_dict()) == [
        "features.state.weight",
        "features.age.weight",
        "features.brands.weight",
        "features.photo.projection.weight",
        "features.photo.projection.bias",
        "features.photo.missing.weight",
        "features.date_year.weight",
        "features.date_month.weight",
        "features.date_weekday.weight",
    ]


def test_several_values_are_averaged_and_padding_counts_for_nothing(encoder, context):
    weight = encoder.features["brands"].weight
    brands = encoder(context).features[2]
    torch.testing.assert_close(brands[0], (weight[4] + weight[6]) / 2)
    torch.testing.assert_close(brands[1], weight[3])
    torch.testing.assert_close(brands[3], (weight[2] + weight[5] + weight[2]) / 3)
    with torch.no_grad():
        weight[0] = 1e6
    torch.testing.assert_close(encoder(context).features[2], brands)


def test_a_missing_vector_has_a_learned_embedding_of_its_own(encoder, context):
    photo = encoder(context).features[3]
    module = encoder.features["photo"]
    torch.testing.assert_close(photo[1], module.missing.weight[0])
    torch.testing.assert_close(photo[3], module.projection.bias)  # a vector of zeros is given, not missing
    torch.testing.assert_close(photo[0], module.projection(torch.tensor([1.0, 2.0])))


def test_every_weight_gets_a_gradient_where_its_value_occurs(encoder, context):
    encoder(context).vector.square().sum().backward()
    for name, parameter in encoder.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name
    state = encoder.features["state"].weight.grad
    assert (state.abs().sum(dim=1) > 0).tolist() == [True, True, True, True]
    brands = encoder.features["brands"].weight.grad
    assert (brands.abs().sum(dim=1) > 0).tolist() == [False, True, True, True, True, True, True]


def test_a_row_does_not_depend_on_the_other_rows(encoder, context):
    whole = encoder(context).vector
    for row in range(5):
        alone = encoder({name: tensor[row : row + 1] for name, tensor in context.items()}).vector
        torch.testing.assert_close(alone, whole[row : row + 1])
    changed = {name: tensor.clone() for name, tensor in context.items()}
    for tensor in changed.values():
        tensor[2] = tensor[0]
    kept = torch.tensor([0, 1, 3, 4])
    assert torch.equal(encoder(changed).vector[kept], whole[kept])
    assert not torch.equal(encoder(changed).vector[2], whole[2])


def test_compiled_equals_eager_in_values_and_gradients(encoder, context):
    eager = encoder(context).vector
    eager.square().sum().backward()
    expected = {name: parameter.grad.clone() for name, parameter in encoder.named_parameters()}
    encoder.zero_grad()
    compiled = torch.compile(encoder, backend="aot_eager", fullgraph=True)(context).vector
    torch.testing.assert_close(compiled, eager)
    compiled.square().sum().backward()
    for name, parameter in encoder.named_parameters():
        torch.testing.assert_close(parameter.grad, expected[name])


def test_bfloat16_autocast_stays_near_float32(encoder, context):
    exact = encoder(context).vector
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rounded = encoder(context).vector
    assert rounded.shape == exact.shape
    torch.testing.assert_close(rounded.float(), exact, rtol=2e-2, atol=2e-2)


def test_weights_in_bfloat16_work(encoder, context):
    assert encoder.to(torch.bfloat16)(context).vector.dtype == torch.bfloat16


def test_a_context_that_does_not_fit_is_an_error(encoder, context):
    with pytest.raises(SchemaError, match="lacks the feature 'age'"):
        encoder({name: tensor for name, tensor in context.items() if name != "age"})
    with pytest.raises(SchemaError, match=r"does not know.*Given: .*weather"):
        encoder({**context, "weather": context["age"]})
    with pytest.raises(ConfigurationError, match=r"unknown kind 'numeric'\. Did you mean 'numerical'"):
        ContextEncoder([FeatureLayout("age", "numeric", 3, 0, 3)])  # type: ignore[arg-type]


def test_features_may_be_called_what_torch_calls_its_own_things():
    names = ["type", "items", "values", "keys", "training", "type_", "forward", "weight", "a feature", "size"]
    encoder = ContextEncoder([FeatureLayout(name, "categorical", 3, 0, 2) for name in names])
    assert encoder({name: torch.tensor([1]) for name in names}).vector.shape == (1, 2 * len(names))
    assert len(encoder.state_dict()) == len(names)
    encoder.eval()
    encoder.load_state_dict(encoder.state_dict())


def test_initialisation_by_module_class_reaches_every_weight(encoder):
    reached = {
        id(parameter)
        for module in encoder.modules()
        if isinstance(module, (nn.Embedding, nn.Linear))
        for parameter in module.parameters(recurse=False)
    }
    assert reached == {id(parameter) for parameter in encoder.parameters()}


NAMES = [
    *(
        "_modules",
        "_parameters",
        "_buffers",
        "training",
        "forward",
        "keys",
        "type",
        "values",
        "weight",
        "gamma",
        "beta",
    ),
    *("query", "class", "it's", 'say "x"', "a/b", "x\ny", "__class__", "__dict__", "T_destination", "x" * 300, "a b"),
    *(
        "features",
        "context_encoder",
        "parametrizations",
        "a.b",
        "0",
        "missing",
        "[PAD]",
        "self",
        "keys_",
        "\u00fcn\u00ef",
    ),
]


def test_a_column_of_any_name_is_a_feature(tmp_path):
    table = pa.table({name: [f"v{row % 3}" for row in range(60)] for name in NAMES})
    schema = infer_schema(table).schema
    assert schema.columns == tuple(NAMES)
    encoded = encode_table(schema, table)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = ContextualBertConfig.from_schema(schema, vocab_size=8, conditioning="film", **sizes)
    model = ContextualBertForMaskedLM(config)
    model.save_pretrained(tmp_path)
    loaded, info = ContextualBertForMaskedLM.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(info.values())
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, loaded.state_dict()[name])
    inputs = {"input_ids": torch.tensor([[4, 5]] * 60), "context": encoded.tensors}
    assert torch.equal(model.eval()(**inputs)["logits"], loaded.eval()(**inputs)["logits"])
    records = [dict.fromkeys(NAMES, "v1")]
    assert encode_records(schema, records).unknown == {}
