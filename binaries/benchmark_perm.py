"""PERM against other methods: `binaries.benchmark perm`."""

import runpy

if __name__ == '__main__':
  runpy.run_module('binaries.benchmark', run_name='__main__')
