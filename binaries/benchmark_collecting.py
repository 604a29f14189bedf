"""Measures the cost of collecting messages: `binaries.speed.collecting`."""

import runpy

if __name__ == '__main__':
  runpy.run_module(
      'binaries.speed.collecting', run_name='__main__', alter_sys=True
  )
