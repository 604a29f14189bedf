"""Measures seconds per round: `binaries.speed.round`."""

import runpy

if __name__ == '__main__':
  runpy.run_module('binaries.speed.round', run_name='__main__', alter_sys=True)
