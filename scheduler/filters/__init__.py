"""The rules that say which hosts may have an instance: one file a family, under nova's module names."""
