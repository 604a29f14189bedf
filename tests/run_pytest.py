"""Main program of every Bazel test: runs pytest on the files it is given."""

import sys

import pytest

if __name__ == '__main__':
  # .venv holds this project as well.  Hide that one, so that a dependency that
  # is missing from a BUILD file fails.
  sys.meta_path = [
      f for f in sys.meta_path
      if '__editable__' not in getattr(f, '__module__', '')
  ]
  options = ['-m', 'not slow', '-p', 'no:cacheprovider']
  code = pytest.main([*options, *sys.argv[1:]])
  # A file may hold slow tests only.
  sys.exit(0 if code == pytest.ExitCode.NO_TESTS_COLLECTED else code)
