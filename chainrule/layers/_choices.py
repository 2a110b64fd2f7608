"""The kinds of norms, activations and positions that there are, by name, for settings that do not import torch."""

NORMS = ("layer", "rms")
ACTIVATIONS = ("relu", "silu", "gelu", "gelu-tanh", "relu-squared", "swiglu")
POSITIONS = ("none", "sinusoidal", "learned", "rotary", "alibi", "relative")
AT_INPUT = ("sinusoidal", "learned")  # joined to the embedding, once
BY_DISTANCE = ("alibi", "relative")  # added to the attention scores of every layer
RELATIVE_BUCKETS = 32  # of distances; each has a learned bias for every head
