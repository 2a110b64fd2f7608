"""Tasks put into words: templates with examples in them, whose last answer the model has to write."""
