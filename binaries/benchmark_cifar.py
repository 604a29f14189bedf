"""Colour images: `binaries.benchmark cifar`."""

import runpy

if __name__ == '__main__':
  runpy.run_module('binaries.benchmark', run_name='__main__')
