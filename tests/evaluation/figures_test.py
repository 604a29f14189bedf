"""Ticks of rounds, and files of figures."""

import os
import warnings

import matplotlib
import numpy as np
import pytest

from tff_pers.evaluation import figures


@pytest.mark.parametrize('rounds, ticks', [
    ([18], [18]), ([], []), ([55, 110], [55, 110]),
    (range(5, 45, 5), range(5, 45, 5)),
    ([5, 10, 15, 18], [5, 10, 15, 18]),
    # Many: round numbers that were evaluated.
    (range(1, 11), [2, 4, 6, 8, 10]),
    (range(1, 101), [20, 40, 60, 80, 100]),
    # No round number was.
    (range(7, 71, 7), [14, 28, 42, 56, 70]),
])
def test_ticks_are_evaluated_rounds(rounds, ticks):
  _, (axis,) = figures.new_figure(4, 3, 1)
  axis.plot(list(rounds), np.zeros(len(rounds)))
  before = axis.get_xlim()
  figures.tick_at(axis, list(rounds)[::-1])
  assert axis.get_xticks().tolist() == list(ticks)
  assert axis.get_xlim() == before


@pytest.mark.parametrize('layout', ['autolayout', 'constrained_layout.use'])
def test_a_layout_that_the_user_asked_for_is_not_in_the_way(tmp_path, layout):
  """That of a figure with a bar of colours cannot be exchanged."""
  with matplotlib.rc_context({f'figure.{layout}': True}), (
      warnings.catch_warnings()
  ):
    warnings.simplefilter('error')
    picture, axes = figures.new_figure(3.0, 2.0, 1)
    picture.colorbar(axes[0].imshow([[0.0, 1.0]]), ax=axes[0])
    path = figures.save(picture, str(tmp_path), 'made')
  for suffix in ('.png', '.svg'):
    assert os.path.getsize(path + suffix) > 1000


def test_a_saved_figure_has_a_legend(tmp_path):
  picture, (axis,) = figures.new_figure(4, 3, 1)
  axis.plot([0, 1], [0, 1], label='perm')
  figures.save(picture, str(tmp_path), 'curves')
  [legend] = picture.legends
  assert [text.get_text() for text in legend.get_texts()] == ['perm']
