"""From what a person names (files, folders, patterns, standard input) to batches of documents."""
