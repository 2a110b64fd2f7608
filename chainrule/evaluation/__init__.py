"""How good a model is on a text: perplexity, bits per byte, the worst passages, and whether a difference is real."""
