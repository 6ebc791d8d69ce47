"""Load a real scheduler process for a long time, and judge whether what it occupies stays flat."""
