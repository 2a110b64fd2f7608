"""Every kind of model on the same text, for the same time, measured on the same bytes."""
