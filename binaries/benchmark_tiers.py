"""Measures what a tier costs: `binaries.speed.tiers`."""

import runpy

if __name__ == '__main__':
  runpy.run_module('binaries.speed.tiers', run_name='__main__', alter_sys=True)
