"""Load a cloud of real servers, break one part after another, and check what callers were told."""
