"""Measures what adaptors cost: `binaries.speed.adaptors`."""

import runpy

if __name__ == '__main__':
  runpy.run_module(
      'binaries.speed.adaptors', run_name='__main__', alter_sys=True
  )
