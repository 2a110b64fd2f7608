"""Building blocks of models that learn by gradient, in torch."""
