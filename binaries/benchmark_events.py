"""Measures the cost of simulating events: `binaries.speed.events`."""

import runpy

if __name__ == '__main__':
  runpy.run_module('binaries.speed.events', run_name='__main__', alter_sys=True)
