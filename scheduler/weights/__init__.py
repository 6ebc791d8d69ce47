"""The preferences that say which host is best: one file a family, under nova's module names."""
