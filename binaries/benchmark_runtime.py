"""Compares the runtimes: `binaries.speed.runtime`."""

import runpy

if __name__ == '__main__':
  runpy.run_module(
      'binaries.speed.runtime', run_name='__main__', alter_sys=True
  )
