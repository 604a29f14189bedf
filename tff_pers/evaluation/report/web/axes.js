// Scales and axes of pictures.

const LINE = 12;

/** Returns a function from values to pixels, and its limits and kind. */
function scaleOf(low, high, start, end, isLog = false) {
  const bend = isLog ? Math.log10 : value => value;
  const span = bend(high) - bend(low) || 1;
  const scale = value => start + (bend(value) - bend(low)) / span * (end - start);
  return Object.assign(scale, {low, high, start, end, isLog});
}

/** Returns limits of finite values with a margin: [low, high]. */
function limits(values, isLog) {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (low > high) return isLog ? [1, 10] : [0, 1];
  if (isLog) return low === high ? [low / 2, high * 2] : [low / 1.1, high * 1.1];
  const margin = (high - low) * 0.04 || Math.abs(low) * 0.05 || 0.5;
  return [low - margin, high + margin];
}

/** Returns round numbers within the limits of a scale, at most `count`. */
function ticksOf(scale, count) {
  if (scale.isLog) return logTicks(scale, count);
  const rough = (scale.high - scale.low) / Math.max(count, 1);
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find(factor => factor * unit >= rough) * unit;
  const ticks = [];
  for (let i = Math.ceil(scale.low / step); i * step <= scale.high; i++) {
    ticks.push(Number((i * step).toPrecision(12)));
  }
  return ticks;
}

function logTicks(scale, count) {
  const first = Math.ceil(Math.log10(scale.low) - 1e-9);
  const last = Math.floor(Math.log10(scale.high) + 1e-9);
  const decades = [];
  for (let power = first; power <= last; power++) decades.push(10 ** power);
  if (decades.length > 1) {
    const step = Math.ceil(decades.length / Math.max(count, 1));
    return decades.filter((_, index) => index % step === 0);
  }
  const ticks = [];
  for (let power = first - 1; power <= last; power++) {
    for (const factor of [1, 2, 5]) ticks.push(factor * 10 ** power);
  }
  return ticks.filter(value => value >= scale.low && value <= scale.high);
}

/**
 * Returns rounds to tick: all that were evaluated if they are few; else the
 * round numbers among them, or, where there are too few of these, some.
 */
function roundTicks(scale, rounds, count) {
  if (rounds.length <= count) return rounds;
  const known = new Set(rounds);
  const ticks = ticksOf(scale, count).filter(value => known.has(value));
  if (ticks.length > 1) return ticks;
  const step = Math.ceil(rounds.length / Math.max(count, 1));
  return rounds.filter((_, index) => (rounds.length - 1 - index) % step === 0);
}

/** Draws a horizontal axis with grid lines up to `top`. */
function drawBottom(svg, scale, ticks, y, top, title, style) {
  for (const value of ticks) {
    const x = scale(value);
    svg.append(
        draw('line', {class: 'grid', x1: x, x2: x, y1: top, y2: y}),
        draw('text', {class: 'tick', x, y: y + 15, 'text-anchor': 'middle'},
             tickText(value, style)));
  }
  const middle = (scale.start + scale.end) / 2;
  svg.append(
      draw('line', {class: 'axis', x1: scale.start, x2: scale.end, y1: y,
                    y2: y}),
      draw('text', {class: 'axis-title', x: middle, y: y + 33,
                    'text-anchor': 'middle'}, title));
}

/** Draws a vertical axis with grid lines to `right`. */
function drawLeft(svg, scale, ticks, x, right) {
  for (const value of ticks) {
    const y = scale(value);
    svg.append(
        draw('line', {class: 'grid', x1: x, x2: right, y1: y, y2: y}),
        draw('text', {class: 'tick', x: x - 6, y: y + 4,
                      'text-anchor': 'end'}, tickText(value)));
  }
  svg.append(draw(
      'line', {class: 'axis', x1: x, x2: x, y1: scale.start, y2: scale.end}));
}
