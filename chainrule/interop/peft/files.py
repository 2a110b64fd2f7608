"""The files of an adapter's folder, and how PEFT names the tensors in them."""

SETTINGS = "adapter_config.json"
WEIGHTS, TORCH = "adapter_model.safetensors", "adapter_model.bin"
PREFIX = "base_model.model."  # of the names that modules have in the model
A, B = ".lora_A.weight", ".lora_B.weight"
# The ends of the names of embeddings, which PEFT stores beside the adapter where a vocabulary has grown.
EMBEDDINGS = ("embed_tokens.weight", "wte.weight", "embed_in.weight", "lm_head.weight", "embed_out.weight")
