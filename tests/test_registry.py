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


def test_the_names_in_a_table_are_read_without_importing_its_module():
    from chainrule.ngram.smoothing import METHODS

    assert registry.table_names("chainrule.ngram.smoothing", "METHODS") == list(METHODS)
    with pytest.raises(AssertionError, match="has no NOTHING"):
        registry.table_names("chainrule.ngram.smoothing", "NOTHING")
