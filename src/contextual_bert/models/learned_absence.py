"""Properties that a model has from training on missing contexts. It knows the fields of a config and no tensor."""

from typing import Any


class LearnedAbsence:
    """Properties of training on missing contexts, read from the config."""

    config: Any

    @property
    def has_learned_anonymous(self) -> bool:
        """Return True if training showed examples without any context, so that this state was learned."""
        return self.config.context_dropout > 0

    @property
    def has_learned_absent_fields(self) -> bool:
        """Return True if training left out single fields. The model is then valid for any subset of them."""
        return self.config.field_dropout > 0

    @property
    def unlearned_absences(self) -> tuple[str, ...]:
        """Features that hardly any training example lacked: without one of them, an answer was not learned."""
        return () if self.has_learned_absent_fields else tuple(self.config.rarely_missing or ())
