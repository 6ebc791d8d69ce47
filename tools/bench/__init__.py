"""Benchmarks; ``tools/benchmark`` runs them."""
