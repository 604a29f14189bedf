"""A browser looks at a page, and says what it sees.

A script that is added at the end of the page does what a reader would do, and
writes what it sees into the page, which the browser then prints.
"""

from html import parser
import json
import shutil
import subprocess

import pytest

_NAMES = ('chromium', 'chromium-browser', 'google-chrome', 'chrome')

_PROBE = r"""
const seen = {};
function cellsOf(table, column) {
  return [...table.querySelectorAll('tbody tr')].map(
      row => row.children[column].textContent);
}
function headed(part, title) {
  return [...part.querySelectorAll('thead button')].find(
      button => button.textContent === title);
}
function move(svg, x, y) {
  const box = svg.getBoundingClientRect();
  svg.dispatchEvent(new PointerEvent('pointermove', {
    clientX: box.left + x * box.width, clientY: box.top + y * box.height}));
  return [...document.querySelectorAll('.tip div')].map(
      line => line.textContent);
}
function sortings(table, column) {
  const button = table.querySelectorAll('thead button')[column];
  const state = () => [
    button.parentNode.getAttribute('aria-sort'), cellsOf(table, 0)];
  const found = [state()];
  for (let i = 0; i < 2; i++) {
    button.click();
    found.push(state());
  }
  return found;
}
function probe() {
  const group = JSON.parse(
      document.getElementById('data').textContent).groups[0];
  const tables = [...document.querySelectorAll('table')];
  const find = caption => tables.find(
      table => table.caption.textContent.startsWith(caption));
  seen.hacked = window.hacked || 0;
  seen.title = document.querySelector('h1').textContent;
  seen.accuracy = sortings(find('Means over clients'), 2);
  const clients = find('Test accuracy of each client');
  seen.clients = sortings(clients, 0);
  seen.clientCells = cellsOf(clients, 0).map((name, index) => [
    name, ...[1, 2, 3, 4, 5].map(column => cellsOf(clients, column)[index])]);
  seen.mixed = sortedRows(
      [[10], ['nan'], [9], [null], [-1], [100]], 0, false).concat(
      sortedRows([[10], ['nan'], [9], [null], [-1], [100]], 0, true));
  const lanes = svg => [...svg.querySelectorAll('.lane')].map(
      lane => lane.querySelectorAll('tspan')[1].textContent + ': ' +
          lane.querySelector('.lane-note').textContent);
  const hurt = () => document.querySelector('.hurt svg');
  seen.hurt = lanes(hurt());
  const choose = document.querySelector('.hurt select');
  choose.value = 'perm';
  choose.dispatchEvent(new Event('change'));
  seen.hurtByPerm = lanes(hurt());
  seen.losses = hurtLane({curves: [], clients: {
    metric: 'loss', names: ['a', 'b'], seeds: {0: {unseen: []}},
    runs: [{label: 'x', seed: 0, values: [1, 5]},
           {label: 'y', seed: 0, values: [2, 3]}]}}, 'x', 'y').note;
  const shown = part => {
    const button = [...document.querySelectorAll('.switches button')].find(
        button => button.textContent === part);
    button.click();
    const [svg] = document.querySelectorAll('.panels svg');
    return [svg.querySelectorAll('.line').length,
            svg.querySelectorAll('.thin').length, move(svg, 0.99, 0.5)];
  };
  seen.parts = {both: shown('Both'), test: shown('Test'),
                validation: shown('Validation')};
  shown('Both');
  const ticks = svg => [...svg.querySelectorAll('text.tick')]
      .filter(tick => tick.getAttribute('text-anchor') === 'middle')
      .map(tick => tick.textContent);
  seen.ticks = ticks(document.querySelector('.panels svg'));
  shown('Bytes');
  seen.bytes = ticks(document.querySelector('.panels svg'));
  shown('Time');
  shown('Rounds');
  const legend = [...document.querySelectorAll('.legend button')];
  legend[1].click();
  seen.withoutPerm = document.querySelector('.panels svg')
      .querySelectorAll('.line').length;
  legend[1].click();
  seen.logs = [...document.querySelectorAll('.panel-head input')].map(
      input => input.checked);
  const map = group.maps.find(map => map.kind === 'mixing');
  seen.cells = decoded(map);
  const [picture] = document.querySelectorAll('svg:has(image)');
  const image = picture.querySelector('image');
  const part = name => Number(image.getAttribute(name));
  const inside = (row, column) => move(
      picture, (part('x') + (column + 0.5) / 4 * part('width')) /
          picture.viewBox.baseVal.width,
      (part('y') + (row + 0.5) / 4 * part('height')) /
          picture.viewBox.baseVal.height);
  seen.cell = inside(1, 0);
  seen.nextCell = inside(0, 1);
  seen.edges = picture.querySelectorAll('.edge').length;
  seen.wide = document.documentElement.scrollWidth -
      document.documentElement.clientWidth;
  seen.spots = document.querySelectorAll('.spot').length;
  window.dispatchEvent(new Event('beforeprint'));
  seen.folded = document.querySelectorAll('details:not([open])').length;
}
try {
  probe();
} catch (error) {
  reportError(error.stack);
}
document.body.append(make('pre', {id: 'probe'}, JSON.stringify(seen)));
"""


class _Reader(parser.HTMLParser):
  """Finds the text of the element that the probe has written, and errors."""

  def __init__(self, text):
    super().__init__()
    self.probe, self.errors, self._inside = '', [], None
    self.feed(text)

  def handle_starttag(self, tag, attrs):
    attrs = dict(attrs)
    self._inside = attrs.get('id') or attrs.get('role')

  def handle_data(self, data):
    if self._inside == 'probe':
      self.probe += data
    elif self._inside == 'alert':
      self.errors.append(data)

  def handle_endtag(self, tag):
    self._inside = None


def _browser():
  found = next(filter(None, map(shutil.which, _NAMES)), None)
  if found is None:
    pytest.skip('needs chromium to look at a page (apt-get install chromium)')
  return found


def look(folder, text, width=1200):
  """Returns what the probe saw, and the errors of scripts."""
  path = folder / 'page.html'
  path.write_text(
      text.replace('</body>', f'<script>{_PROBE}</script></body>'),
      encoding='utf-8',
  )
  done = subprocess.run(
      [
          _browser(), '--headless', '--no-sandbox', '--disable-gpu',
          '--disable-dev-shm-usage', f'--user-data-dir={folder / "profile"}',
          # Time for what the page does later, such as drawing again.
          f'--window-size={width},900', '--virtual-time-budget=2000',
          '--dump-dom', path.as_uri(),
      ],
      capture_output=True, text=True, timeout=120, check=False,
  )
  read = _Reader(done.stdout)
  assert read.probe, done.stderr
  return json.loads(read.probe), read.errors
