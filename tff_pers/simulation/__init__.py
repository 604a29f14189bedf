"""Runs: cohorts, client states, checkpoints, delays, training programs."""
