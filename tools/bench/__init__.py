"""Benchmarks; ``tools/berth benchmark`` runs them."""
