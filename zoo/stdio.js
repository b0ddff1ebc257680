'use strict';
// The animals that are programs: a script below `servers/`, its arguments, and what a host should make of it.

const { devNull } = require('node:os');

/** A text with everything that people do not see, and what a terminal obeys. */
const HIDDEN =
  'visible' +
  Array.from('tag', (one) => String.fromCodePoint(0xe0000 + one.charCodeAt(0))).join('') +
  '\u200B\u2066\u202Ereversed\u202C\u001B[31m';

const faulty = (...flags) => ['faulty-server.mjs', ...flags];

/** Name, script with arguments, what it does, and the rule that a host should keep. */
const PROGRAMS = [
  [
    'correct',
    faulty(),
    'nothing wrong by itself; its tools do what their names say when they are called: die, flood, sleep, raw-lines, rpc-error, stderr, …',
    'an error of one call is that call’s alone',
  ],
  [
    'silent',
    faulty('--silent'),
    'reads everything and never answers',
    'a start has a time limit, and its end names the server',
  ],
  [
    'exits',
    faulty('--exit', '3'),
    'says why on standard error and exits with 3 at once',
    'the error has the exit code and the last lines',
  ],
  [
    'page',
    ['wrong-answer-server.mjs', 'html'],
    'answers the handshake with an HTML page',
    'told as what it is, at once and with its first bytes',
  ],
  [
    'http-answer',
    ['wrong-answer-server.mjs', 'http'],
    'answers the handshake with an HTTP answer',
    'told as what it is, at once and with its first bytes',
  ],
  [
    'noise',
    ['wrong-answer-server.mjs', 'noise'],
    'follows every answer with a line of HTML',
    'lines that are no messages are reported and passed over',
  ],
  [
    'banner',
    faulty('--banner'),
    'prints a banner, a byte order mark, CRLF, colours, and cuts messages inside an emoji',
    'what is a message is read, the rest is passed over',
  ],
  [
    'content-length',
    faulty('--content-length'),
    'frames messages by length, as editors’ protocols do',
    'one clear error, not a wait',
  ],
  [
    'string-ids',
    faulty('--string-ids'),
    'answers calls under the id as text first, then properly',
    'an id of another type is another id',
  ],
  [
    'duplicate-replies',
    faulty('--duplicate-replies'),
    'answers every call twice',
    'the first answer counts, the second reaches nobody',
  ],
  [
    'reorder',
    faulty('--reorder', '3'),
    'collects three calls and answers them in random order',
    'answers belong to calls by their id',
  ],
  [
    'late',
    faulty('--late'),
    'answers calls although they were cancelled',
    'a late answer reaches nobody and breaks nothing',
  ],
  [
    'half-answer',
    faulty('--half-then-exit'),
    'writes half of its first answer to a call and dies',
    'the call fails, and is not repeated by itself',
  ],
  [
    'halves',
    ['halves-server.mjs'],
    'its tool `halves {ms}` writes half an answer, waits, and writes the rest',
    'a message may come in pieces, inside of a character too',
  ],
  [
    'huge',
    ['bulk-server.mjs', 'stdio'],
    'its tool `sized {bytes}` answers with a message of that size',
    'sizes have a bound that is told, memory too',
  ],
  [
    'stops-reading',
    faulty('--no-stdin-read'),
    'stops reading at the first call',
    'writing to it holds up nobody and has a bound',
  ],
  [
    'closes-output',
    faulty('--close-stdout'),
    'closes its output at the first call and lives on',
    'an output that ended is a lost server',
  ],
  ['ignores-end', faulty('--ignore-eof'), 'lives on when its input ends', 'it is asked with a signal then'],
  [
    'ignores-signals',
    faulty('--ignore-eof', '--ignore-term'),
    'ignores the end of its input, SIGINT, SIGTERM and SIGHUP',
    'it is killed, in bounded time',
  ],
  [
    'grandchild',
    faulty('--grandchild', devNull),
    'starts a process that is deaf to signals and holds its output',
    'what a server started ends with it',
  ],
  [
    'flood-of-errors',
    faulty('--flood-stderr', '8'),
    'writes 8 MB to standard error without a line end',
    'standard error is read, and kept only in part',
  ],
  [
    'old-version',
    faulty('--old-version', '2024-11-05'),
    'answers with the oldest revision',
    'older revisions are spoken',
  ],
  [
    'unknown-version',
    faulty('--bad-version'),
    'answers with a revision that nobody knows',
    'refused with both revisions named',
  ],
  [
    'refuses-handshake',
    faulty('--initialize-error'),
    'answers the handshake with an error',
    'its words are in the error',
  ],
  [
    'strict-first',
    faulty('--strict-first'),
    'exits when the first message is no handshake',
    'a probe must not cost a server its life',
  ],
  [
    'probe-silent',
    faulty('--probe', 'silent'),
    'does not answer `server/discover`',
    'the question has a time limit of its own',
  ],
  [
    'asks',
    faulty('--requests'),
    'asks for things after the handshake; its tool `answers` shows what came back',
    'unknown requests are refused, not left open',
  ],
  [
    'list-fails',
    faulty('--list-error'),
    'answers `tools/list` with an error',
    'connected all the same; the error is in the status',
  ],
  [
    'list-fails-later',
    faulty('--list-error-later'),
    'answers `tools/list` with an error from the second time on',
    'the last good list stays',
  ],
  [
    'list-silent',
    faulty('--list-silent'),
    'never answers `tools/list`',
    'one list has a time limit and holds up no other server',
  ],
  [
    'same-cursor',
    faulty('--cursor-loop'),
    'gives the same cursor for ever',
    'a cursor that comes again ends the list, and is told',
  ],
  [
    'endless-pages',
    faulty('--cursor-endless'),
    'gives a new cursor for ever',
    'pages have a bound that is told',
  ],
  [
    'bad-tools',
    faulty('--bad-tools'),
    'lists broken and doubled tools among good ones',
    'the good ones stay, the others are told',
  ],
  [
    'hidden-words',
    ['dirty-server.mjs', JSON.stringify(HIDDEN)],
    'says invisible and deceiving characters wherever it can say anything',
    'what a model or a person sees is what there is',
  ],
  [
    'rug-pull',
    ['changing-server.mjs'],
    'has a harmless tool, and another one under its name after the first call',
    'a changed definition is told before it is used',
  ],
  [
    'stateless',
    ['modern-server.mjs'],
    'speaks 2026-07-28 only; `ask_forever` asks without end',
    'both eras are found out; rounds of questions have a bound',
  ],
  [
    'stateless-deaf',
    ['modern-server.mjs', '--drop-listen'],
    'ends every listen stream at once',
    'listening is tried again more and more slowly',
  ],
  [
    'tasks',
    ['task-server.mjs', 'legacy'],
    'runs calls as tasks whose `how` says how they go wrong: odd, deaf, die, forget, never, …',
    'a task ends for the caller, whatever the server does',
  ],
  [
    'stateless-tasks',
    ['task-server.mjs', 'modern'],
    'the same in 2026-07-28',
    'a task ends for the caller, whatever the server does',
  ],
].map(([name, [script, ...args], does, rule]) => ({ name, script, args, does, rule }));

module.exports = { PROGRAMS };
