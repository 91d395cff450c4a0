"""Memory for the columns of batches, which stays between batches."""

from __future__ import annotations

import collections
import sys
from typing import Any

import numpy

from . import _farcall
from .executor import Array, Executor

# What counts as a reference to memory that no column lies in: the array of all of it, and the counting itself.
_UNUSED = 2


class Columns:
    """The memory of one kernel's columns. Any thread may take some; a thread that finds none free makes more.

    >>> with Executor() as executor:
    ...     columns = Columns(executor)
    ...     first = columns.zeros(3, "<f8")
    ...     address = first.ctypes.data
    ...     del first
    ...     columns.zeros(2, "<f8").ctypes.data == address
    True
    """

    def __init__(self, executor: Executor, count_max: int = 8) -> None:
        self._executor = executor
        # The oldest is forgotten first; columns in it keep their memory.
        self._count_max = count_max
        self._kept: dict[numpy.dtype[Any], collections.deque[Array]] = {}

    def zeros(self, rows: int, dtype: Any) -> Array:
        """A column of zeros. Its memory is used again when nothing refers to it any more."""
        column = self._take(rows, numpy.dtype(dtype))
        column[...] = 0
        return column

    def copy(self, data: Array) -> Array:
        """A copy of a column, or the column itself if it lies in memory that an executor maps."""
        memory: Any = data
        while isinstance(memory, numpy.ndarray):
            memory = memory.base
        if isinstance(memory, _farcall.Memory) and data.flags.c_contiguous:
            return data  # a call copies it if the memory is another executor's
        if data.ndim != 1:
            return self._executor.copy(data)
        column = self._take(len(data), data.dtype)
        column[...] = data
        return column

    def _take(self, rows: int, dtype: numpy.dtype[Any]) -> Array:
        kept = self._kept.setdefault(dtype, collections.deque(maxlen=self._count_max))
        for _ in range(len(kept)):
            try:
                whole = kept.popleft()
            except IndexError:
                break  # other threads have taken the others
            if len(whole) < rows:
                # Batches have grown. A column that lies in it keeps the memory as long as it lives.
                continue
            is_unused = sys.getrefcount(whole.base) <= _UNUSED
            column = whole[:rows]
            kept.append(whole)
            if is_unused:
                return column
        # A quarter more, so that batches of slightly different sizes share it.
        whole = self._executor.array(rows + rows // 4, dtype)
        column = whole[:rows]
        kept.append(whole)
        return column
