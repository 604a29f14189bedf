// Lanes, one above the other; values increase from left to right.

const LANE = {label: 19, height: 38, left: 14, right: 14, bottom: 42};
const LETTER = 6.9;
const DOTS = 2500;
const BINS = 48;

/**
 * Returns a figure of lanes.
 *
 * `lanes` is a function that returns, each time, lanes: `label`, `note`,
 * `color`, and `points`, each with `value`, `text` and maybe `color`; maybe
 * `bar`, [low, high], and `mean`. Many points become a histogram. Options:
 * `title` of the axis, a function; `zero`: whether a line marks it; `within`:
 * what the axis does not leave where no value does, [low, high]; `baseline`:
 * the accuracy of always the most frequent class, a line; `height` of a lane.
 */
function laneFigure(lanes, options) {
  return figure(width => laneChart(lanes(), width, options));
}

function laneChart(lanes, width, options) {
  // Notes that do not fit beside their labels are drawn below.
  const isBelow = lanes.some(lane => LETTER *
      (lane.label.length + (lane.note || '').length + 5) > width - LANE.left);
  const label = LANE.label * (isBelow ? 2 : 1);
  const height = options.height || LANE.height;
  const step = label + height;
  const bottom = Math.max(lanes.length, 1) * step + 4;
  const all = lanes.flatMap(lane => [
    ...lane.points.map(point => point.value), ...(lane.bar || [])]);
  if (options.zero) all.push(0);
  if (isNumber(options.baseline)) all.push(options.baseline);
  const within = options.within || [-Infinity, Infinity];
  const isWithin = all.every(
      value => value >= within[0] && value <= within[1]);
  const ends = limits(all, false).map((value, index) =>
    isWithin ? [Math.max, Math.min][index](value, within[index]) : value);
  const scale = scaleOf(...ends, LANE.left, width - LANE.right);
  const svg = canvas(
      width, bottom + LANE.bottom, `${options.title()}, ${lanes.length} lanes`);
  drawBottom(svg, scale, ticksOf(scale, Math.max(2, Math.floor(width / 80))),
             bottom, 4, options.title());
  if (options.zero) {
    svg.append(draw('line', {
      class: 'zero', x1: scale(0), x2: scale(0), y1: 4, y2: bottom}));
  }
  if (isNumber(options.baseline)) {
    const x = scale(options.baseline);
    const isRight = x > width / 2;
    svg.append(
        draw('line', {class: 'baseline', x1: x, x2: x, y1: 4, y2: bottom}),
        draw('text', {class: 'tick', x: x + (isRight ? -4 : 4), y: bottom - 3,
                      'text-anchor': isRight ? 'end' : 'start'},
             BASELINE));
  }
  const total = lanes.reduce((sum, lane) => sum + lane.points.length, 0);
  const spots = [];
  lanes.forEach((lane, index) => {
    const top = index * step + 4;
    if (index) {
      svg.append(draw('line', {class: 'apart', x1: LANE.left, y1: top - 1,
                               x2: width - LANE.right, y2: top - 1}));
    }
    drawLaneLabel(svg, lane, top, width, isBelow);
    const [from, to] = [top + label, top + step - 2];
    if (lane.bar) drawBar(svg, lane, scale, (from + to) / 2);
    if (total > DOTS) {
      drawHistogram(svg, lane, scale, from, to);
    } else {
      spots.push(...drawDots(svg, lane, scale, from, to));
    }
    if (isNumber(lane.mean)) {
      const x = scale(lane.mean);
      svg.append(draw('line', {class: 'mean', x1: x, x2: x, y1: from, y2: to}));
    }
  });
  pointAt(svg, spots);
  return svg;
}

function drawLaneLabel(svg, lane, top, width, isBelow) {
  const room = Math.floor((width - LANE.left - LANE.right) / LETTER) - 3;
  const label = lane.label.length > room ?
      `${lane.label.slice(0, Math.max(room - 1, 6))}…` : lane.label;
  const place = isBelow ? {x: LANE.left + 14, dy: LANE.label - 3} : {dx: 10};
  svg.append(draw(
      'text', {class: 'lane', x: LANE.left, y: top + 14},
      draw('title', {}, lane.label),
      draw('tspan', {fill: lane.color}, '● '), draw('tspan', {}, label),
      draw('tspan', {class: 'lane-note', ...place}, lane.note || '')));
}

function drawBar(svg, lane, scale, y) {
  svg.append(draw('line', {
    class: 'bar', x1: scale(lane.bar[0]), x2: scale(lane.bar[1]), y1: y, y2: y,
    stroke: lane.color}));
}

/** Draws a dot per point, stacked where they overlap; returns positions. */
function drawDots(svg, lane, scale, from, to) {
  const radius = lane.bar ? 5 : 3;
  const stacks = new Map();
  for (const point of lane.points) {
    const place = Math.round(scale(point.value) / (2 * radius));
    if (!stacks.has(place)) stacks.set(place, []);
    stacks.get(place).push(point);
  }
  const spots = [];
  for (const stack of stacks.values()) {
    // The whole stack stays in its lane at any height.
    const room = (to - from - 2 * radius) / Math.max(stack.length - 1, 1);
    const gap = Math.min(2 * radius, room);
    stack.forEach((point, index) => {
      const y = (from + to) / 2 + (index - (stack.length - 1) / 2) * gap;
      const x = scale(point.value);
      svg.append(draw('circle', {
        class: 'spot', cx: x.toFixed(1), cy: y.toFixed(1), r: radius,
        fill: point.color || lane.color}));
      spots.push({x, y, text: point.text, color: point.color || lane.color});
    });
  }
  return spots;
}

/** Draws a histogram of the points. */
function drawHistogram(svg, lane, scale, from, to) {
  const width = (scale.end - scale.start) / BINS;
  // Counted from zero, so that no bin has values of both signs.
  const bins = new Map();
  for (const point of lane.points) {
    const bin = Math.floor((scale(point.value) - scale(0)) / width);
    if (!bins.has(bin)) bins.set(bin, []);
    bins.get(bin).push(point);
  }
  const most = Math.max(...[...bins.values()].map(bin => bin.length));
  for (const [index, bin] of bins) {
    const height = Math.max(1, bin.length / most * (to - from - 2));
    svg.append(draw(
        'rect', {
          x: scale(0) + index * width, width: Math.max(width - 1, 1),
          y: to - height, height,
          fill: bin[0].color || lane.color},
        draw('title', {}, `${bin.length} clients`)));
  }
}

/** Shows the text of the point under the pointer. */
function pointAt(svg, spots) {
  svg.addEventListener('pointermove', event => {
    const box = svg.getBoundingClientRect();
    const zoom = svg.viewBox.baseVal.width / box.width;
    const x = (event.clientX - box.left) * zoom;
    const y = (event.clientY - box.top) * zoom;
    let best = null, least = 12 ** 2;
    for (const spot of spots) {
      const apart = (spot.x - x) ** 2 + (spot.y - y) ** 2;
      if (apart < least) [best, least] = [spot, apart];
    }
    if (best) {
      showTip(event.clientX, event.clientY, [[best.text, best.color]]);
    } else {
      hideTip();
    }
  });
  svg.addEventListener('pointerleave', hideTip);
}
