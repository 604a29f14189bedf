// Elements of the page. Texts become text nodes, never markup.

window.addEventListener('error', event => reportError(event.message));

/** Shows on the page that a script has failed. */
function reportError(message) {
  const shown = document.createElement('p');
  shown.className = 'script-error';
  shown.setAttribute('role', 'alert');
  shown.textContent = `A script on this page has failed: ${message}`;
  document.body.prepend(shown);
}

/** Returns an HTML element; functions such as `onclick` are listeners. */
function make(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** Returns an SVG element. */
function draw(tag, attributes = {}, ...children) {
  return fill(
      document.createElementNS('http://www.w3.org/2000/svg', tag), attributes,
      children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) {
      element.addEventListener(name.slice(2), value);
    } else {
      element.setAttribute(name, value === true ? '' : value);
    }
  }
  // Texts are appended as text nodes.
  element.append(...children.filter(child => child !== null));
  return element;
}

/** Returns a menu; `choices` are [value, text], `change` gets the value. */
function menu(title, choices, chosen, change) {
  const select = make(
      'select', {onchange: event => change(event.target.value)},
      ...choices.map(([value, text]) => make(
          'option', {value, selected: value === chosen}, text)));
  return make('label', {class: 'control'}, title, select);
}

/** Returns buttons, one of them pressed; `change` gets its value. */
function switches(title, choices, chosen, change) {
  const buttons = choices.map(([value, text]) => make('button', {
    type: 'button', 'aria-pressed': String(value === chosen),
    onclick: event => {
      for (const other of buttons) other.setAttribute('aria-pressed', 'false');
      event.currentTarget.setAttribute('aria-pressed', 'true');
      change(value);
    },
  }, text));
  return make(
      'div', {class: 'control', role: 'group', 'aria-label': title}, title,
      make('span', {class: 'switches'}, ...buttons));
}

/** Returns a check box; `change` gets whether it is ticked. */
function tick(title, isTicked, change) {
  const box = make('input', {
    type: 'checkbox', checked: isTicked,
    onchange: event => change(event.target.checked),
  });
  return make('label', {class: 'control'}, box, title);
}

/**
 * Returns a figure that is drawn again whenever its width changes.
 *
 * `paint` gets a width in pixels and returns an SVG element; `redraw` of the
 * figure calls it, `fit` does so if the width has changed.
 */
function figure(paint) {
  const stage = make('div', {class: 'stage'});
  const whole = make('figure', {}, stage);
  let width = 0;
  whole.redraw = () => {
    if (width) stage.replaceChildren(paint(width));
  };
  whole.fit = () => {
    const now = Math.floor(stage.clientWidth);
    if (now && now !== width) {
      width = now;
      whole.redraw();
    }
  };
  // In the next frame, because drawing changes the height that is observed.
  new ResizeObserver(() => requestAnimationFrame(whole.fit)).observe(stage);
  return whole;
}

/** Returns an empty picture of the given size in pixels. */
function canvas(width, height, label) {
  return draw('svg', {
    viewBox: `0 0 ${width} ${height}`, width, height, role: 'img',
    'aria-label': label,
  });
}

const tip = make('div', {class: 'tip', role: 'status', hidden: true});

/** Shows lines, [text, colour or null] each, beside the pointer. */
function showTip(x, y, lines) {
  tip.replaceChildren(...lines.map(([text, color]) => make(
      'div', {},
      color ? make('span', {class: 'dot', style: `background:${color}`}) : null,
      text)));
  tip.hidden = false;
  const room = document.documentElement.clientWidth;
  const left = Math.max(4, Math.min(x + 14, room - tip.offsetWidth - 4));
  const below = y + 16 + tip.offsetHeight < window.innerHeight;
  tip.style.left = `${left + window.scrollX}px`;
  tip.style.top =
      `${(below ? y + 16 : y - tip.offsetHeight - 12) + window.scrollY}px`;
}

function hideTip() {
  tip.hidden = true;
}
