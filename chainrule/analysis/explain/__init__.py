"""What a model saw: the die it rolls, which tokens mattered, and the reason in the terms of its own kind."""
