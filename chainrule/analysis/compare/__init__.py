"""Compares kinds of models: trained on the same text for the same time, measured on the same bytes."""
