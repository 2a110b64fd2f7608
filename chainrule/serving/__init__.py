"""Any number of runs behind one HTTP server: OpenAI's API, and a page to look inside the models."""
