// Curves of all variants against rounds, seconds or bytes.

const MARGIN = {left: 54, right: 14, top: 10, bottom: 42};
const MARKED_POINTS = 24;
const FIRST_SHOWN = 10;
const X_AXES = {
  round: ['Rounds', '', 'number'],  // The title is that of the group.
  seconds: ['Time', 'Training time', 'seconds'],
  bytes: [
    'Bytes', 'Bytes of the run / clients per round', 'bytes'],
};
const TEST = '_mean', VALIDATED = '_validation';
const TITLES = {
  accuracy_mean: 'Accuracy, mean over clients',
  loss_mean: 'Loss, mean over clients',
  accuracy_worst_decile: 'Accuracy of the worst decile',
  train_loss: 'Training loss',
  cluster_accuracy: 'Clients in the right cluster',
  cluster_nmi: 'Clusters: normalized mutual information',
  distance: 'Distance to the optimum',
};

/** Returns the curves of a group with their controls, null without any. */
function curveSection(group, view) {
  const has = name => group.curves.some(
      curve => curve.columns[name] && curve.axes.round.length);
  const main = [...new Set([
    group.final.metric + TEST, 'accuracy_mean', 'loss_mean'])].filter(has);
  if (!main.length) return null;
  const validated = main.some(name => has(validationOf(name)));
  const state = {x: 'round', part: validated ? 'both' : 'test'};
  const others = [...new Set(group.curves.flatMap(
      curve => Object.keys(curve.columns)))]
      .filter(name => !main.includes(name) &&
          !main.map(validationOf).includes(name));
  const panels = main.map(
      name => curvePanel(group, view, state, () => name, null));
  if (others.length) panels.push(otherPanel(group, view, state, others));
  const redraw = () => panels.forEach(panel => panel.redraw());
  view.watchers.push(redraw);
  const choices = Object.entries(X_AXES).map(([name, [text]]) => [name, text]);
  const controls = make('div', {class: 'controls'}, switches(
      'Against', choices, state.x, value => {
        state.x = value;
        redraw();
      }));
  if (validated) {
    controls.append(switches(
        'Data', [['test', 'Test'], ['validation', 'Validation'],
                 ['both', 'Both']], state.part, value => {
                   state.part = value;
                   redraw();
                 }));
  }
  return make(
      'section', {}, make('h3', {}, 'Curves'), controls,
      make('div', {class: 'panels'}, ...panels),
      make('p', {class: 'note'}, curveNote(group, validated)));
}

/** Returns the validation column that belongs to a test column. */
function validationOf(name) {
  return name.endsWith(TEST) ? name.slice(0, -TEST.length) + VALIDATED : null;
}

/** Returns the title of a column. */
function titleOf(name) {
  return TITLES[name] || (name.endsWith(TEST) ?
      `${name.slice(0, -TEST.length)}, mean over clients` : name);
}

function curveNote(group, validated) {
  const several = group.curves.some(curve => Object.values(curve.columns)
      .some(column => column.low));
  const thinned = Math.max(...group.curves.map(curve => curve.thinned || 0));
  return [
    several ? 'Lines are means over seeds, bands their range.' : '',
    validated ? 'Solid lines: test data; dots: validation data.' : '',
    'Ticks mark evaluated rounds.',
    thinned ? `Of ${thinned} evaluated rounds, evenly spaced ones are drawn.` :
              '',
    'Point at a curve, or use the arrow keys, for its values.',
  ].filter(Boolean).join(' ');
}

/** Returns a panel whose column is chosen from a menu. */
function otherPanel(group, view, state, names) {
  const preferred = [
    'distance', 'cluster_accuracy', 'accuracy_worst_decile', 'train_loss'];
  let chosen = preferred.find(name => names.includes(name)) || names[0];
  const panel = curvePanel(group, view, state, () => chosen, menu(
      'Also:', names.map(name => [name, titleOf(name)]), chosen,
      name => {
        chosen = name;
        panel.redraw();
      }));
  return panel;
}

/** Returns one chart; `nameOf` returns the column that it shows now. */
function curvePanel(group, view, state, nameOf, chooser) {
  let isLog = null;
  const title = make('h4');
  const panel = figure(width => {
    const name = nameOf();
    title.textContent = titleOf(name);
    const lines = linesOf(group, view, state, name);
    return curveChart(lines, width, {
      title: title.textContent, x: state.x,
      isLog: isLog === null ? isWide(lines) : isLog && allPositive(lines),
      baseline: name === 'accuracy_mean' ? group.final.baseline : null,
      round: group.across,
    });
  });
  const log = tick('log', isWide(linesOf(group, view, state, nameOf())),
                   value => {
                     isLog = value;
                     panel.redraw();
                   });
  panel.prepend(make('div', {class: 'panel-head'}, chooser || title, log));
  return panel;
}

/** Returns the lines of a column: points [x, y, low, high], and their look. */
function linesOf(group, view, state, name) {
  const parts = [[name, '']];
  const held = validationOf(name);
  if (held) parts.push([held, ', validation']);
  const shown = parts.filter((_, index) => parts.length === 1 ||
      state.part === 'both' || (state.part === 'test') === (index === 0));
  return group.curves.flatMap((curve, number) => {
    if (view.hidden.has(curve.label)) return [];
    return shown.filter(([column]) => curve.columns[column]).map(
        ([column, suffix]) => ({
          label: curve.label + suffix, color: color(number),
          dashes: suffix ? '1 3.5' : dashes(number), isThin: Boolean(suffix),
          rounds: curve.axes.round,
          // Bands would hide those of test data.
          points: pointsOf(
              curve.axes[state.x], curve.columns[column],
              !suffix || shown.length === 1),
        }));
  }).filter(line => state.x !== 'bytes' || line.points.some(([x]) => x > 0));
}

function pointsOf(xs, column, hasBand) {
  const at = (values, index) => hasBand && values ? values[index] : null;
  return xs.map((x, index) => [
    x, column.mean[index], at(column.low, index), at(column.high, index)]);
}

function valuesOf(lines) {
  return lines.flatMap(line => line.points.flatMap(
      point => point.slice(1).filter(isNumber)));
}

function allPositive(lines) {
  return valuesOf(lines).every(value => value > 0);
}

/** Whether a logarithmic axis shows the lines better. */
function isWide(lines) {
  const values = valuesOf(lines);
  if (!values.length) return false;
  const [low, high] = [Math.min(...values), Math.max(...values)];
  return 0 < low && low < high / 100;
}

function curveChart(lines, width, {title, x, isLog, baseline, round}) {
  const height = width < 420 ? 250 : 290;
  const right = width - MARGIN.right, bottom = height - MARGIN.bottom;
  const xs = lines.flatMap(line => line.points.map(([value]) => value))
      .filter(isNumber);
  const isLogX = x === 'bytes' && Math.min(...xs) < Math.max(...xs) / 20;
  const across = scaleOf(...limits(xs, isLogX), MARGIN.left, right, isLogX);
  const values = valuesOf(lines);
  if (isNumber(baseline)) values.push(baseline);
  const up = scaleOf(...limits(values, isLog), bottom, MARGIN.top, isLog);
  const svg = canvas(width, height, `${title} of ${lines.length} curves`);
  const count = Math.max(2, Math.floor(width / 75));
  const rounds = [...new Set(lines.flatMap(line => line.rounds))]
      .sort((a, b) => a - b);
  const ticks = x === 'round' ? roundTicks(across, rounds, count) :
      ticksOf(across, count);
  drawBottom(svg, across, ticks, bottom, MARGIN.top, X_AXES[x][1] || round,
             X_AXES[x][2]);
  drawLeft(svg, up, ticksOf(up, 6), MARGIN.left, right);
  if (!lines.length) {
    svg.append(draw('text', {class: 'tick', x: (MARGIN.left + right) / 2,
                             y: height / 2, 'text-anchor': 'middle'},
                    'nothing to show'));
  }
  if (isNumber(baseline)) {
    svg.append(
        draw('line', {class: 'baseline', x1: MARGIN.left, x2: right,
                      y1: up(baseline), y2: up(baseline)}),
        draw('text', {class: 'tick', x: right, y: up(baseline) - 4,
                      'text-anchor': 'end'}, BASELINE));
  }
  for (const line of lines) drawLine(svg, line, across, up);
  follow(svg, lines, across, up, x);
  return svg;
}

/** Draws a line with its band, with gaps where there is no value. */
function drawLine(svg, line, across, up) {
  const known = line.points.filter(([, y]) => isNumber(y));
  const at = (x, y) => `${across(x).toFixed(1)},${up(y).toFixed(1)}`;
  const band = known.filter(point => point.slice(2).every(isNumber));
  if (band.length > 1) {
    const edge = [
      ...band.map(([x, , low]) => at(x, low)),
      ...band.map(([x, , , high]) => at(x, high)).reverse()];
    svg.append(draw('polygon', {
      points: edge.join(' '), fill: line.color, class: 'band'}));
  }
  let path = '', isDown = false;
  for (const [x, y] of line.points) {
    if (isNumber(y)) path += `${isDown ? 'L' : 'M'}${at(x, y)}`;
    isDown = isNumber(y);
  }
  svg.append(draw('path', {
    d: path, stroke: line.color, 'stroke-dasharray': line.dashes || null,
    class: line.isThin ? 'line thin' : 'line'}));
  if (known.length > MARKED_POINTS || line.isThin) return;
  for (const [x, y] of known) {
    svg.append(draw('circle', {
      cx: across(x).toFixed(1), cy: up(y).toFixed(1), r: 2.4,
      fill: line.color}));
  }
}

/** Shows values at the pointer, or at a position set by arrow keys. */
function follow(svg, lines, across, up, x) {
  const marks = draw('g');
  svg.append(marks);
  const places = [...new Set(lines.flatMap(
      line => line.points.map(point => point[0])))].sort((a, b) => a - b);
  let place = places.length;

  function show(value, clientX, clientY) {
    const found = lines.map(line => [line, nearest(line.points, value)])
        .filter(([, point]) => point);
    const falls = svg.getAttribute('aria-label').includes('ccuracy') ? -1 : 1;
    found.sort((a, b) => falls * (a[1][1] - b[1][1]));
    marks.replaceChildren(...found.map(([line, point]) => draw('circle', {
      cx: across(point[0]), cy: up(point[1]), r: 4, fill: line.color,
      class: 'mark'})));
    const head = tickText(value, X_AXES[x][2]);
    showTip(clientX, clientY, [
      [x === 'round' ? `round ${head}` : head, null],
      ...found.slice(0, 14).map(
          ([line, point]) => [tipText(line, point, value, x), line.color]),
    ]);
  }

  svg.addEventListener('pointermove', event => {
    const box = svg.getBoundingClientRect();
    const at = (event.clientX - box.left) * svg.viewBox.baseVal.width /
        box.width;
    const value = places.reduce((best, other) =>
      Math.abs(across(other) - at) < Math.abs(across(best) - at) ?
        other : best, places[0]);
    if (value === undefined) return;
    place = places.indexOf(value);
    show(value, event.clientX, event.clientY);
  });
  const leave = () => {
    marks.replaceChildren();
    hideTip();
  };
  svg.addEventListener('pointerleave', leave);
  svg.addEventListener('blur', leave);
  svg.setAttribute('tabindex', 0);
  svg.addEventListener('keydown', event => {
    const step = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    if (!step || !places.length) return;
    event.preventDefault();
    place = Math.max(0, Math.min(places.length - 1, place + step));
    const box = svg.getBoundingClientRect();
    show(places[place], box.left + across(places[place]) * box.width /
        svg.viewBox.baseVal.width, box.top + 20);
  });
}

/** Returns the point with a value that is nearest to `x`, or undefined. */
function nearest(points, x) {
  return points.filter(([, y]) => isNumber(y)).reduce(
      (best, point) => !best || Math.abs(point[0] - x) <
          Math.abs(best[0] - x) ? point : best, undefined);
}

function tipText(line, [at, value, low, high], x, axis) {
  const range = isNumber(low) && low !== high ?
      ` (${plain(low)} to ${plain(high)})` : '';
  const where = at === x ? '' :
      axis === 'round' ? `, round ${at}` : ` at ${tickText(at, X_AXES[axis][2])}`;
  return `${line.label}: ${plain(value)}${range}${where}`;
}
