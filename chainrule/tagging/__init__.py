"""A tag for every word: models that count, models that learn, and how well they do."""
