"""Measures what robust rules cost: `binaries.speed.rules`."""

import runpy

if __name__ == '__main__':
  runpy.run_module('binaries.speed.rules', run_name='__main__', alter_sys=True)
