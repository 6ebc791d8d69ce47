"""Columns of few distinct values, made for one rule: of numbers, and of several columns together."""

import numpy as np

from scheduler.hosts.coded import Coded


def of_numbers(column: np.ndarray) -> Coded:
    """A numeric column, shape (hosts,), as the plain Python values that occur in it."""
    values, codes = np.unique(column, return_inverse=True)
    return Coded(codes, tuple(values.tolist()))


def together(*columns: Coded) -> Coded:
    """One column of tuples; only combinations that occur are among its values."""
    codes = columns[0].codes
    for column in columns[1:]:
        _, codes = np.unique(codes.astype(np.int64) * len(column.values) + column.codes, return_inverse=True)
    _, first, codes = np.unique(codes, return_index=True, return_inverse=True)
    return Coded(codes, tuple(tuple(column[index] for column in columns) for index in first))
