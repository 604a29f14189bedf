// Formats numbers as texts.

const UNITS = [[1e12, 'TB'], [1e9, 'GB'], [1e6, 'MB'], [1e3, 'kB'], [1, 'B']];
const DASHES = ['', '6 4', '2 3'];
const BASELINE = 'always the most frequent class';

/** Returns a cell as a text; `style` is that of its column. */
function written(value, style) {
  if (value === null || value === undefined) return '';
  if (typeof value === 'string') return value;
  if (style === 'percent') return `${short(100 * value, 3)} %`;
  if (style === 'integer') return grouped(value);
  if (style === 'short') return short(value, 6);
  if (style === 'bytes') return inBytes(value);
  if (style === 'seconds') return inSeconds(value);
  return plain(value);
}

/** Returns a number as tables show it: four decimals, or five digits. */
function plain(value) {
  const size = Math.abs(value);
  if (Number.isInteger(value)) return grouped(value);
  if (size >= 1e6 || size < 1e-3) return value.toExponential(3);
  return size < 10 ? value.toFixed(4) : short(value, 5);
}

/** Returns a number with significant digits, without trailing zeros. */
function short(value, digits) {
  return String(Number(value.toPrecision(digits)));
}

function grouped(value) {
  if (Math.abs(value) >= 1e15) return value.toExponential(3);
  return value.toLocaleString('en-US', {maximumFractionDigits: 1});
}

function inBytes(value) {
  const [unit, name] = UNITS.find(([size]) => value >= size) || [1, 'B'];
  return `${short(value / unit, 3)} ${name}`;
}

function inSeconds(value) {
  if (value >= 7200) return `${short(value / 3600, 3)} h`;
  if (value >= 120) return `${short(value / 60, 3)} min`;
  return value >= 0.1 || !value ?
      `${short(value, 3)} s` : `${short(value * 1000, 3)} ms`;
}

/** Returns the label of a tick. */
function tickText(value, style) {
  if (style === 'bytes') return inBytes(value);
  if (style === 'seconds') return inSeconds(value);
  const size = Math.abs(value);
  if (value && (size >= 1e6 || size < 1e-3)) {
    return value.toExponential().replace('e+', 'e');
  }
  return short(value, 6);
}

/** Returns the colour of the line of this number. */
function color(number) {
  return `var(--c${number % 8})`;
}

/** Returns the dashes of the line of this number. */
function dashes(number) {
  return DASHES[Math.floor(number / 8) % DASHES.length];
}

/** Returns the mean of numbers, null without any. */
function mean(values) {
  return values.length ?
      values.reduce((sum, value) => sum + value, 0) / values.length : null;
}
