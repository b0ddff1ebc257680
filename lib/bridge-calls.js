'use strict';
// Calls to a native half of the bridge: its questions go to functions of the host by their names, its events to whoever
// is told.

const native = require('../binding.js');
const check = require('./check.js');
const { NativeCalls } = require('./native-calls.js');
const { reply } = require('./questions.js');

/**
 * @param {'bridge' | 'sessions' | 'child'} kind which half
 * @param {object} options its options, with `callbacks`: the names of the functions that may be asked
 * @param {Record<string, Function>} functions where they are
 * @param {(name: string, value: unknown) => void} tell takes its events
 * @param {Function} caller where errors of its options seem to come from
 */
function bridgeCalls(kind, options, functions, tell, caller) {
  const text = check.json(options, 'options');
  const receive = (letter) => {
    if (letter.kind === 'event') tell(letter.name, letter.value);
    if (letter.kind === 'question')
      void reply(calls.native, letter.question, () => functions[letter.callback](letter.body));
  };
  const calls = new NativeCalls((ring) => new native.NativeBridge(kind, text, ring), receive, caller);
  return calls;
}

module.exports = { bridgeCalls };
