"""From text to a run folder."""
