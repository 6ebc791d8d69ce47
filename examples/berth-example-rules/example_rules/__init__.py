"""Rules of an operator's own. The guide to them: doc/source/write-your-own-filter.rst."""
