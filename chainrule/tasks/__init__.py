"""One kind of data each: how it is read, batched, measured; a task is found by the name of its file."""
