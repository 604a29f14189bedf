"""Measures what a large population costs: `binaries.speed.population`."""

import runpy

if __name__ == '__main__':
  runpy.run_module(
      'binaries.speed.population', run_name='__main__', alter_sys=True
  )
