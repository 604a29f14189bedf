"""`shakespeare`, `stackoverflow_nwp`, `stackoverflow_tags`: clients, examples.
"""

import numpy as np
import pytest

from tests import built
from tests.data import text_sources
from tff_pers.data import client_data
from tff_pers.data import errors
from tff_pers.data import holdout
from tff_pers.data import on_demand
from tff_pers.data import tasks
from tff_pers.data import text_files
from tff_pers.data import texts
from tff_pers.data import validation
from tff_pers.data.tasks import shakespeare
from tff_pers.data.tasks import stackoverflow

NAMES = ('shakespeare', 'stackoverflow_nwp', 'stackoverflow_tags')
SMALL = dict(
    shakespeare=dict(length=10),
    stackoverflow_nwp=dict(vocabulary=6, length=4),
    stackoverflow_tags=dict(vocabulary=6, tags=4),
)
MODELS = dict(
    shakespeare='char_lstm_small', stackoverflow_nwp='lstm_small',
    stackoverflow_tags='logistic_tags',
)


@pytest.fixture(name='folder')
def _folder(tmp_path):
  text_sources.roles(tmp_path)
  return text_sources.questions(tmp_path)


def _build(name, folder, options=(), **request):
  return built.task(
      name, folder, dict(SMALL[name], **dict(options)),
      **{'model': MODELS[name], **request},
  )


def _rows(data, name):
  return data['examples'][name][:int(data['num_examples'])]


@pytest.mark.parametrize('name', NAMES)
def test_examples_fit_the_model(name, folder):
  task = _build(name, folder)
  assert task.name == name and task.num_clients == 4
  assert task.partition == 'by_client' and task.full_participation
  assert len(task.client_names) == 4 and len(task.test) == 4
  for data in [*task.train, *task.test]:
    for key, spec in (('x', task.model.x_spec), ('y', task.model.y_spec)):
      rows = data['examples'][key]
      assert rows.dtype == spec.dtype and len(rows) == data['num_examples'] > 0
      assert rows.shape[1:] == tuple(spec.shape[1:])
    assert client_data.constant(data)['index'] == data['index']


@pytest.mark.parametrize('name', NAMES)
def test_the_seed_decides_split_and_sample(name, folder):
  first, again, other = (
      _build(name, folder, seed=seed, num_clients=2) for seed in (0, 0, 5)
  )
  for a, b in zip(first.train, again.train):
    np.testing.assert_array_equal(_rows(a, 'x'), _rows(b, 'x'))
  assert first.client_names == again.client_names
  assert first.client_names != other.client_names
  # Those who are chosen have the texts that they have among all.
  whole = _build(name, folder, seed=0)
  at = [whole.client_names.index(client) for client in first.client_names]
  for place, data in zip(at, first.test):
    assert data['num_examples'] == whole.test[place]['num_examples']


def test_speeches_are_split_before_they_are_cut(folder):
  """No speech is in part trained and in part tested on."""
  task = _build('shakespeare', folder, seed=3)
  corpus = text_files.read_roles(folder)
  token_of = texts.numbered(texts.CHARACTERS)
  for client, name in enumerate(task.client_names):
    found = {}
    for part in ('train', 'test'):
      data = getattr(task, part)[client]
      # Digits tell speeches apart: 'Speech 3 of role'.
      starts = _rows(data, 'y')[_rows(data, 'x')[:, 0] == 88]
      found[part] = {int(row[7]) for row in starts}
    assert not found['train'] & found['test']
    speeches = corpus.clients[name]
    assert {token_of[s.words[7]] for s in speeches} == (
        found['train'] | found['test']
    )
    assert len(found['train']) == round(0.8 * len(speeches))


def test_vocabulary_is_of_training_texts_alone(tmp_path):
  """A word that is only tested on is unknown, however frequent."""
  corpus = text_files.Corpus(
      'nowhere', {
          name: [*[text_files.Text('cat runs', ('a',))] * 3,
                 *[text_files.Text('dog dog dog', ('b',))] * 3]
          for name in ('u', 'v')
      },
      is_test={name: np.arange(6) >= 3 for name in ('u', 'v')},
  )
  nwp = stackoverflow.nwp_of_corpus(
      corpus, tasks.TaskRequest(model='lstm_small'),
      stackoverflow.NwpOptions(vocabulary=3, length=4),
  )
  np.testing.assert_array_equal(
      nwp.train[0]['examples']['y'], [[1, 2, 6, 0]] * 3
  )
  np.testing.assert_array_equal(
      nwp.test[0]['examples']['y'], [[4, 4, 4, 6]] * 3
  )
  tags = stackoverflow.tags_of_corpus(
      corpus, tasks.TaskRequest(), stackoverflow.TagsOptions(
          vocabulary=3, tags=2
      ),
  )
  np.testing.assert_array_equal(
      tags.train[1]['examples']['x'], [[0.5, 0.5, 0.0]] * 3
  )
  assert not tags.test[1]['examples']['x'].any()
  assert not tags.test[1]['examples']['y'].any()
  # Differential privacy does not cover a count over all clients.
  assert nwp.pooled_statistics and tags.pooled_statistics


def test_vocabulary_is_without_clients_that_never_train():
  words = dict(u='ant', v='bee', w='cat')
  corpus = text_files.Corpus(
      'nowhere', {name: [text_files.Text(word)] * 4
                  for name, word in words.items()},
  )
  task = stackoverflow.nwp_of_corpus(
      corpus, tasks.TaskRequest(model='lstm_small', holdout_clients=1),
      stackoverflow.NwpOptions(vocabulary=5, length=2),
  )
  held_out, = holdout.choose(3, 1, 0)
  for client, data in enumerate(task.train):
    is_known = data['examples']['y'][0, 0] <= 5
    assert is_known == (client != held_out)


@pytest.mark.parametrize('name', NAMES[1:])
def test_vocabulary_is_without_validation_texts(name):
  """Every text has a word and a tag of its own."""
  corpus = text_files.Corpus(
      'nowhere', {
          client: [
              text_files.Text(f'{client}{row}', (f'{client}{row}',))
              for row in range(10)
          ] for client in ('u', 'v')
      },
  )
  build = (
      stackoverflow.nwp_of_corpus if name == NAMES[1]
      else stackoverflow.tags_of_corpus
  )
  request = tasks.TaskRequest(
      model=MODELS[name], seed=3, validation_fraction=0.25
  )
  options = tasks.get(name).options(**dict(SMALL[name], vocabulary=20))
  task = validation.hold_out(build(corpus, request, options), 0.25, 3)
  first_words = lambda data: _rows(data, 'y' if name == NAMES[1] else 'x')[:, 0]
  for train, held in zip(task.train, task.validation):
    if name == NAMES[1]:
      assert (first_words(train) <= 20).all()
      assert (first_words(held) == 21).all() and len(first_words(held)) == 2
    else:
      assert _rows(train, 'x').sum(1).tolist() == [1.0] * 6
      assert not _rows(held, 'x').any()


def test_words_stand_between_spaces_where_others_cut_them():
  """TFF's posts; `words` would make more of them."""
  corpus = text_files.Corpus(
      'nowhere', {'u': [text_files.Text("it's <br/> c++ .", ('x',), 'a-b')] * 4},
      spaced=True,
  )
  task = stackoverflow.nwp_of_corpus(
      corpus, tasks.TaskRequest(model='lstm_small'),
      stackoverflow.NwpOptions(vocabulary=9, length=6),
  )
  # Equal counts by alphabet: . <br/> c++ it's; then the end.
  np.testing.assert_array_equal(
      task.train[0]['examples']['y'][0], [4, 2, 3, 1, 12, 0]
  )
  task = stackoverflow.tags_of_corpus(
      corpus, tasks.TaskRequest(),
      stackoverflow.TagsOptions(vocabulary=6, tags=2),
  )
  np.testing.assert_allclose(
      task.train[0]['examples']['x'][0], [0.2] * 5 + [0.0], atol=1e-7
  )


def test_clients_that_come_chosen_are_all_of_them_with_all_texts():
  """Whatever has no words, as others count them."""
  texts_of = [text_files.Text(''), text_files.Text('a'), text_files.Text('b')]
  corpus = text_files.Corpus(
      'nowhere', {'u': texts_of, 'v': texts_of[::-1]},
      is_test={name: np.arange(3) == 2 for name in ('u', 'v')}, chosen=True,
  )
  for request in (dict(num_clients=2), dict(train_fraction=0.4)):
    task = stackoverflow.nwp_of_corpus(
        corpus, tasks.TaskRequest(model='lstm_small', **request),
        stackoverflow.NwpOptions(
            vocabulary=5, length=2, min_train=2, min_test=1
        ),
    )
    assert task.client_names == ['u', 'v']
    sizes = on_demand.sizes(task.train) + on_demand.sizes(task.test)
    assert sizes.tolist() == [3, 3]


def test_a_source_may_bring_its_vocabulary():
  corpus = text_files.Corpus(
      'nowhere', {'u': [text_files.Text('cat dog', ('x',))] * 4},
      vocabulary=['dog', 'cat', 'ant'], tags=['z', 'x'],
  )
  task = stackoverflow.nwp_of_corpus(
      corpus, tasks.TaskRequest(model='lstm_small'),
      stackoverflow.NwpOptions(vocabulary=2, length=3),
  )
  np.testing.assert_array_equal(task.train[0]['examples']['y'][0], [2, 1, 5])
  task = stackoverflow.tags_of_corpus(
      corpus, tasks.TaskRequest(),
      stackoverflow.TagsOptions(vocabulary=1, tags=2),
  )
  np.testing.assert_array_equal(task.train[0]['examples']['y'][0], [0, 1])


def test_who_has_too_few_posts_is_left_out(folder):
  """User u has 12 + u posts, of which a fifth is tested on."""
  options = dict(min_train=11, min_test=3)
  task = _build('stackoverflow_nwp', folder, options)
  assert task.client_names == ['2', '3']
  # The sample's default: 8 and 2.
  assert _build('stackoverflow_nwp', folder).num_clients == 4
  with pytest.raises(errors.DataError, match='at least 50 training and 2 test'):
    _build('stackoverflow_nwp', folder, dict(min_train=50))


def test_a_user_trains_on_no_more_than_the_first_posts(folder):
  whole = _build('stackoverflow_nwp', folder)
  task = _build('stackoverflow_nwp', folder, dict(max_train=9))
  for data, all_data in zip(task.train, whole.train):
    assert data['num_examples'] == 9
    assert all_data['num_examples'] > 9
  assert [d['num_examples'] for d in task.test] == [
      d['num_examples'] for d in whole.test
  ]


def test_clients_without_texts_are_left_out(tmp_path):
  text_sources.write(tmp_path, 'roles.json.gz', {
      'p:none': dict(speeches=[]), 'p:empty': dict(speeches=['', '', '']),
      'p:one': dict(speeches=['Ay.', '']),
      'p:two': dict(speeches=['Ay.', 'No.']),
  })
  task = _build('shakespeare', str(tmp_path))
  assert task.client_names == ['p:two']
  assert task.train[0]['num_examples'] == task.test[0]['num_examples'] == 1


def test_raises_if_nobody_has_texts(tmp_path):
  text_sources.write(
      tmp_path, 'roles.json.gz', {'p:one': dict(speeches=['Ay.'])}
  )
  with pytest.raises(errors.DataError, match='found none among 1. Tip: lower'):
    _build('shakespeare', str(tmp_path))


@pytest.mark.parametrize('name', NAMES)
def test_raises_on_what_does_not_fit(name, folder):
  with pytest.raises(errors.DataError, match='`num_clients` must be <= the 4'):
    _build(name, folder, num_clients=5)
  with pytest.raises(ValueError, match='`partition` must be by_client for ta'):
    _build(name, folder, partition='iid')
  with pytest.raises(ValueError, match=f"for task {name}, found 'mlp'"):
    _build(name, folder, model='mlp')
  # Models of characters are none of words.
  other = 'lstm_small' if name == 'shakespeare' else 'char_lstm_small'
  with pytest.raises(ValueError, match=f"for task {name}, found '{other}'"):
    _build(name, folder, model=other)
  assert _build(name, folder, partition='by_client').num_clients == 4


def test_bags_of_words_are_made_when_asked_for(folder):
  task = _build('stackoverflow_tags', folder)
  for part in (task.train, task.test):
    assert isinstance(part, on_demand.OnDemand)
  first, again = task.train[0], task.train[0]
  assert first['examples']['x'] is not again['examples']['x']
  np.testing.assert_array_equal(_rows(first, 'x'), _rows(again, 'x'))


def test_training_fraction_draws_a_split_instead():
  corpus = text_files.Corpus(
      'nowhere', {'u': [text_files.Text('Ay.')] * 10},
      is_test={'u': np.arange(10) >= 5},
  )
  options = shakespeare.ShakespeareOptions(length=5)
  sizes = [
      shakespeare.of_corpus(
          corpus, tasks.TaskRequest(
              model='char_lstm_small', train_fraction=fraction
          ), options,
      ).train[0]['num_examples']
      for fraction in (0.0, 0.9)
  ]
  assert sizes == [5, 9]
