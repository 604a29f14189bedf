"""Measures the memory of PERM's model table: `binaries.speed.memory`."""

import runpy

if __name__ == '__main__':
  runpy.run_module('binaries.speed.memory', run_name='__main__', alter_sys=True)
