"""Runs tests in this process: `fused` starts no worker."""

from tff_pers import runtime

runtime.use('fused')
