'use strict';
// Letters of the native half: what has to be done with them before anybody sees them.

const { describe } = require('./errors.js');

/** Puts the strings that came outside of the JSON text in their places. */
function fill(letter, { places, texts }) {
  const blocks = letter.kind === 'tool' ? letter.value.content : letter.value;
  places.forEach((place, index) => {
    blocks[place].text = texts[index];
  });
}

/** A listener that throws is reported and holds up neither the letters behind it nor the process. */
function contained(what, run) {
  try {
    run();
  } catch (error) {
    process.emitWarning(`${what} threw: ${describe(error)}`, {
      type: 'McpListenerWarning',
      code: 'LISTENER_THREW',
      detail: error instanceof Error ? error.stack : undefined,
    });
  }
}

module.exports = { contained, fill };
