"""From candidates to Selections: filter, weigh, choose, claim, consume, and list alternates."""
