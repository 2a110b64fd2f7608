import pytest

from chainrule import registry
from chainrule.errors import UserError


def test_architectures_are_found_by_the_name_of_their_file():
    assert {"ngram", "infinigram"} <= set(registry.names("chainrule.models"))
    assert registry.find("chainrule.models", "ngram", "model").Model.__module__ == "chainrule.models.ngram"


def test_an_unknown_name_is_an_error_with_a_suggestion():
    with pytest.raises(UserError, match="unknown model 'ngrm'; did you mean 'ngram'"):
        registry.find("chainrule.models", "ngrm", "model")


def test_base_is_not_an_architecture():
    with pytest.raises(UserError, match="unknown model 'base'"):
        registry.find("chainrule.models", "base", "model")
