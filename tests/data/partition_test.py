"""Tests of the partitioners, as properties, and of the data table."""

import hypothesis
from hypothesis import strategies as st
import numpy as np
import pytest

from tff_pers.data import errors
from tff_pers.data import pachinko
from tff_pers.data import partition

_SETTINGS = hypothesis.settings(
    derandomize=True, deadline=None, max_examples=40
)


def _labels(num_examples, num_classes, seed=0):
  """Random labels in which every class occurs."""
  rng = np.random.default_rng(seed)
  labels = rng.integers(0, num_classes, num_examples)
  labels[:num_classes] = np.arange(num_classes)
  return rng.permutation(labels)


def _classes(made, labels):
  return [set(labels[rows].tolist()) for rows in made.indices]


# Every partitioner that deals out all examples, and one with all its options.
_ALL = [
    'iid',
    'by_client',
    'one_class',
    'shards',
    'shards[classes=1,order=random]',
    'shards[classes=3]',
    'dirichlet[alpha=0.3,min=1]',
    'rotated_clusters[clusters=2]',
    'label_shift_clusters[clusters=2]',
    'label_shift_clusters[clusters=3,order=blocks]',
    'class_groups[groups=3]',
]


@pytest.mark.parametrize('text', _ALL)
@_SETTINGS
@hypothesis.given(
    num_examples=st.integers(150, 300),
    num_clients=st.integers(6, 12),
    seed=st.integers(-(2**63), 2**63 - 1),
)
def test_every_example_goes_to_exactly_one_client(
    text, num_examples, num_clients, seed
):
  labels = _labels(num_examples, 5)
  owner = np.arange(num_examples) % num_clients
  made = partition.build(text, labels, num_clients, seed, clients=owner)
  assert len(made.indices) == num_clients
  dealt = np.concatenate(made.indices)
  np.testing.assert_array_equal(np.sort(dealt), np.arange(num_examples))
  assert made.groups.shape == (num_clients,)
  assert made.groups.dtype == np.int32


@pytest.mark.parametrize('text', _ALL)
def test_seed_decides(text):
  labels = _labels(200, 5)
  owner = np.arange(200) % 8  # 8 of them; `by_client` samples 6.
  def rows(seed):
    made = partition.build(text, labels, 6, seed, clients=owner)
    return [part.tolist() for part in made.indices]
  assert rows(3) == rows(3)
  assert any(rows(3) != rows(seed) for seed in (4, 5, 6))


def test_iid_parts_are_equal_and_one_group():
  made = partition.build('iid', _labels(103, 5), 10, 0)
  sizes = [len(rows) for rows in made.indices]
  assert sorted(sizes) == [10] * 7 + [11] * 3
  assert not made.groups.any()


def test_by_client_keeps_natural_clients_in_sorted_order():
  owner = np.array(['b', 'a', 'b', 'c', 'a', 'b'])
  made = partition.build('by_client', np.zeros(6, int), 0, 0, clients=owner)
  assert [rows.tolist() for rows in made.indices] == [[1, 4], [0, 2, 5], [3]]
  np.testing.assert_array_equal(made.groups, [-1, -1, -1])


def test_by_client_samples_whole_clients():
  owner = np.repeat(np.arange(20), np.arange(1, 21))
  made = partition.build('by_client', owner * 0, 5, 1, clients=owner)
  taken = [owner[rows] for rows in made.indices]
  assert all(len(set(names)) == 1 for names in taken)
  first = [int(names[0]) for names in taken]
  assert first == sorted(set(first)) and len(first) == 5
  assert [len(names) for names in taken] == [name + 1 for name in first]


@_SETTINGS
@hypothesis.given(
    classes=st.integers(1, 5),
    num_clients=st.integers(5, 12),
    seed=st.integers(0, 1000),
)
def test_sorted_shards_give_exactly_k_classes(classes, num_clients, seed):
  labels = _labels(400, 5, seed)
  text = f'shards[classes={classes}]'
  made = partition.build(text, labels, num_clients, seed)
  sets = _classes(made, labels)
  assert all(len(s) == classes for s in sets)
  # A group is a set of classes.
  for i, group_i in enumerate(made.groups):
    for j, group_j in enumerate(made.groups):
      assert (group_i == group_j) == (sets[i] == sets[j])


@_SETTINGS
@hypothesis.given(classes=st.integers(1, 5), seed=st.integers(0, 1000))
def test_random_shards_give_at_most_k_classes(classes, seed):
  labels = _labels(400, 5, seed)
  text = f'shards[classes={classes},order=random]'
  made = partition.build(text, labels, 8, seed)
  assert all(1 <= len(s) <= classes for s in _classes(made, labels))
  np.testing.assert_array_equal(made.groups, np.full(8, -1))


def test_sorted_shards_of_50_clients_are_5_groups_of_10():
  """papers/perm.md 4.2 (i): classes {floor(c/10), 5 + floor(c/10)}."""
  labels = np.repeat(np.arange(10), 100)
  made = partition.build('shards[classes=2]', labels, 50, 0)
  for client, classes in enumerate(_classes(made, labels)):
    assert classes == {client // 10, 5 + client // 10}
  np.testing.assert_array_equal(made.groups, np.repeat(np.arange(5), 10))
  assert all(len(rows) == 20 for rows in made.indices)


def test_one_class_of_50_clients_is_10_groups_of_5():
  """papers/perm.md 4.4, case B."""
  labels = _labels(1797, 10)
  made = partition.build('one_class', labels, 50, 0)
  np.testing.assert_array_equal(made.groups, np.repeat(np.arange(10), 5))
  for group, classes in zip(made.groups, _classes(made, labels)):
    assert classes == {int(group)}


@_SETTINGS
@hypothesis.given(
    alpha=st.sampled_from([0.1, 0.5, 5.0]),
    minimum=st.integers(0, 12),
    seed=st.integers(0, 1000),
)
def test_dirichlet_reaches_minimum(alpha, minimum, seed):
  labels = _labels(400, 10, seed)
  text = f'dirichlet[alpha={alpha},min={minimum}]'
  made = partition.build(text, labels, 10, seed)
  assert min(len(rows) for rows in made.indices) >= minimum


def test_dirichlet_alpha_sets_inequality():
  """Share of a client's largest class: near 1/C for large alpha, 1 for small.

  With alpha=1000 each of 10 shares is 0.1 +- 0.003; a client has 400 +- 12 of
  every class. With alpha=0.05 a class goes mostly to one client.
  """
  labels = np.repeat(np.arange(10), 4000)
  def largest(alpha):
    made = partition.build(f'dirichlet[alpha={alpha}]', labels, 10, 0)
    counts = partition.class_counts([labels[r] for r in made.indices], 10)
    return np.mean(counts.max(axis=1) / counts.sum(axis=1))
  assert 0.1 <= largest(1000.0) < 0.12
  assert largest(0.05) > 0.5


def test_rotated_clusters_turn_images():
  x = np.random.default_rng(0).random((40, 4, 4))
  y = _labels(40, 5)
  made = partition.build('rotated_clusters[clusters=4]', y, 8, 0)
  np.testing.assert_array_equal(made.groups, [0, 1, 2, 3, 0, 1, 2, 3])
  parts = made.clients(x, y)
  for (x_c, y_c), rows, turns in zip(parts, made.indices, made.groups):
    expected = np.stack([np.rot90(image, turns) for image in x[rows]])
    np.testing.assert_array_equal(x_c, expected)
    np.testing.assert_array_equal(y_c, y[rows])


def test_label_shift_clusters_never_agree_on_a_label():
  x = np.arange(60.0)[:, None]
  y = _labels(60, 10).astype(np.int32)
  made = partition.build('label_shift_clusters[clusters=3]', y, 6, 0)
  parts = made.clients(x, y)
  for (x_c, y_c), rows, shift in zip(parts, made.indices, made.groups):
    np.testing.assert_array_equal(x_c, x[rows])
    np.testing.assert_array_equal(y_c, (y[rows] + shift) % 10)
    assert y_c.dtype == np.int32
  np.testing.assert_array_equal(made.groups, [0, 1, 2, 0, 1, 2])


def test_clusters_may_be_blocks_of_clients():
  """The order gives the same parts to the same clients, shifted otherwise."""
  y = _labels(60, 10).astype(np.int32)
  text = 'label_shift_clusters[clusters=3,order=blocks]'
  blocks = partition.build(text, y, 7, 0)
  np.testing.assert_array_equal(blocks.groups, [0, 0, 0, 1, 1, 2, 2])
  modulo = partition.build('label_shift_clusters[clusters=3]', y, 7, 0)
  np.testing.assert_array_equal(modulo.groups, [0, 1, 2, 0, 1, 2, 0])
  for a, b in zip(blocks.indices, modulo.indices):
    np.testing.assert_array_equal(a, b)
  assert blocks.deals_test and modulo.deals_test
  assert not partition.build('iid', y, 7, 0).deals_test


def test_rows_of_another_set_look_as_the_client_s_own():
  x, y = np.arange(60.0)[:, None], _labels(60, 10)
  made = partition.build('label_shift_clusters[clusters=2]', y, 2, 0)
  parts = made.clients(x, y, [np.array([5]), np.array([5, 7])])
  np.testing.assert_array_equal(parts[0][1], y[[5]])
  np.testing.assert_array_equal(parts[1][0], x[[5, 7]])
  np.testing.assert_array_equal(parts[1][1], (y[[5, 7]] + 1) % 10)


def test_class_groups_of_cifar100_are_10_by_10_classes():
  """papers/floral.md 5.2: label mod 10, ten clients per group, uniform."""
  labels = np.tile(np.arange(100), 50)
  made = partition.build('class_groups', labels, 100, 0)
  np.testing.assert_array_equal(made.groups, np.arange(100) % 10)
  assert made.transforms is None
  for client, rows in enumerate(made.indices):
    assert len(rows) == 50
    assert set((labels[rows] % 10).tolist()) == {client % 10}
    assert len(set(labels[rows].tolist())) > 5  # Of ten; not one class each.


_DATA = dict(labels=_labels(60, 5), num_clients=6, seed=0)


@pytest.mark.parametrize(
    'text,changes,message',
    [
        ('dirichelt', {}, '`partition` must be one of by_client, class_groups'),
        ('iid[alpha=1]', {}, "partition iid must be one of: none; found"),
        ('shards[classes=6]', {}, '`classes` must be <= the 5 classes'),
        ('shards', dict(num_clients=40), 'Class . must fill 16 slice'),
        ('one_class', dict(num_clients=4), '`num_clients` must be >= the 5'),
        ('dirichlet[min=11]', {}, '`min` must be <= 10 for 60 examples'),
        ('dirichlet[alpha=0.001,min=10]', {}, 'within 1000 draws'),
        ('by_client', {}, 'must not be by_client'),
        (
            'by_client', dict(clients=np.arange(60) % 3),
            '`num_clients` must be <= the 3 clients',
        ),
        ('by_client', dict(clients=np.arange(3)), '`clients` must have one'),
        ('rotated_clusters[clusters=5]', {}, '`clusters` must be <= 4'),
        (
            'rotated_clusters', dict(num_clients=3),
            '`clusters` must be <= the 3 clients',
        ),
        ('label_shift_clusters[clusters=6]', {}, 'must be <= the 5 classes'),
        ('class_groups', {}, 'must be <= the 5 classes and the 6 clients'),
        ('iid', dict(num_clients=0), '`num_clients` must be >= 1'),
        (
            'shards', dict(labels=np.linspace(0, 1, 60)),
            'iid, by_client or rotated_clusters on regression data',
        ),
    ],
)
def test_raises_on_bad_partition(text, changes, message):
  with pytest.raises(ValueError, match=message) as info:
    partition.build(text, **{**_DATA, **changes})
  assert '\n' not in str(info.value)


def test_raises_on_rotating_vectors():
  made = partition.build('rotated_clusters', _labels(60, 5), 6, 0)
  with pytest.raises(errors.DataError, match='square images'):
    made.clients(np.zeros((60, 16)), np.zeros(60))


def test_class_counts_count_labels():
  counts = partition.class_counts([np.array([0, 2, 2]), np.array([], int)], 3)
  np.testing.assert_array_equal(counts, [[1, 0, 2], [0, 0, 0]])


def test_class_counts_raise_on_foreign_label():
  with pytest.raises(errors.DataError, match=r'found 1\.\.3 at client 1'):
    partition.class_counts([np.array([0]), np.array([1, 3])], 3)


def test_table_shows_clients_and_classes():
  assert partition.table(np.array([[3, 0], [12, 4]]), np.array([0, 1])) == (
      'client group  0 1 total\n'
      '     0     0  3 .     3\n'
      '     1     1 12 4    16\n'
      '   all       15 4    19'
  )


def test_table_of_many_clients_is_short():
  text = partition.table(np.ones((1000, 2), int), max_rows=5)
  first_words = [line.split()[0] for line in text.splitlines()]
  assert first_words == ['client', '0', '1', '2', '...', '998', '999', 'all']
  assert 'group' not in text


def _hierarchical(num_examples=3000, num_clients=30, text='pachinko'):
  labels = np.random.default_rng(1).permutation(np.arange(num_examples) % 100)
  made = partition.build(text, labels, num_clients, 0)
  return labels, made


def test_pachinko_deals_out_all_examples_equally():
  labels, made = _hierarchical(num_examples=3010)
  assert {len(rows) for rows in made.indices} == {100, 101}
  np.testing.assert_array_equal(
      np.sort(np.concatenate(made.indices)), np.arange(len(labels))
  )
  assert not partition.knows_groups('pachinko') and (made.groups == -1).all()


def test_pachinko_gives_few_coarse_classes_and_all_of_their_classes():
  """With the defaults: the first clients, whose classes nobody has emptied."""
  labels, made = _hierarchical(num_examples=10_000, num_clients=100)
  coarse = [pachinko.COARSE[labels[rows]] for rows in made.indices[:20]]
  largest = [np.bincount(c, minlength=20).max() / len(c) for c in coarse]
  # Dir(0.1) over 20 has a largest weight of about one half; Dir(10), of 0.1.
  assert 0.35 < np.mean(largest) < 0.75
  for rows, c in zip(made.indices[:20], coarse):
    counts = np.bincount(c, minlength=20)
    if counts.max() >= 50:  # Of five classes no one is missing then.
      own = labels[rows][c == counts.argmax()]
      assert len(set(own.tolist())) == 5


def test_pachinko_is_as_unequal_as_asked_for():
  def spread(text):
    labels, made = _hierarchical(text=text)
    return np.mean([
        len(set(pachinko.COARSE[labels[rows]])) for rows in made.indices
    ])
  few, some, many = (
      spread(f'pachinko[alpha={alpha}]') for alpha in (0.01, 0.3, 100)
  )
  assert few < some < many and many > 18
  labels, made = _hierarchical(text='pachinko[beta=0.01]')
  # One class of a coarse one, as long as it lasts.
  assert len(set(labels[made.indices[0]])) < 15


def test_pachinko_needs_the_classes_of_cifar100():
  with pytest.raises(errors.DataError, match='100 classes of CIFAR-100, found'):
    partition.build('pachinko', np.arange(50) % 10, 5, 0)


def test_the_hierarchy_has_twenty_coarse_classes_of_five():
  assert np.bincount(pachinko.COARSE).tolist() == [5] * 20
  # Apples are fruit, beds furniture, wolves large carnivores, worms others.
  assert pachinko.COARSE[[0, 5, 97, 99]].tolist() == [4, 6, 8, 13]
