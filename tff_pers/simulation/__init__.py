"""Whole runs: cohorts, client states, checkpoints, delays, programs."""
