"""Which task settings on texts describe, and advice that can be followed."""

from typing import Any

import pytest

from contextual_bert.errors import ConfigurationError
from contextual_bert.training.task_choice import task_on_texts

ELMO = {"elmo": "runs/elmo"}


@pytest.mark.parametrize("given", [{"long_documents": True}, {"pair": "c"}, {"is_ordinal": True}, ELMO])
@pytest.mark.parametrize("target", [None, "b"])
def test_what_is_for_labels_names_one_unless_a_target_is_learned(given: dict[str, Any], target: str | None) -> None:
    with pytest.raises(ConfigurationError, match=r"label|elmo") as caught:
        task_on_texts(text="a", target=target, checkpoint="bert", **given)
    assert ("label" in str(caught.value.fix)) == (target is None)
    assert "eave it out" in str(caught.value.fix) or target is None
