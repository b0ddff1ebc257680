'use strict';
// The command-line tool: finds the command, runs it, and tells its end by text, JSON and exit code. All it knows of MCP
// it gets through the public API, as any host does.

const { version } = require('../../index.js');
const { factsOf, lastWords, oneLine } = require('./failure.js');
const { helpOf, overview } = require('./help.js');
const { Interrupted, UsageError } = require('./errors.js');
const { Output } = require('./output.js');
const { parse } = require('./parse.js');

const COMMANDS = new Map(
  [
    require('./commands/list.js'),
    require('./commands/get.js'),
    require('./commands/tools.js'),
    require('./commands/call.js'),
    require('./commands/prompts.js'),
    require('./commands/resources.js'),
    require('./commands/add.js'),
    require('./commands/remove.js'),
    require('./commands/approve.js'),
    require('./commands/auth.js'),
    require('./commands/import.js'),
    require('./commands/doctor.js'),
  ].map((command) => [command.name, command]),
);

const EXIT = { done: 0, failed: 1, usage: 2 };
/** Exit codes of shells: 128 and the number of the signal. */
const SIGNALS = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 };

async function main(argv) {
  const out = new Output({ ...outputOptions(argv), stdout: process.stdout, stderr: process.stderr });
  const interruption = new AbortController();
  const onSignal = (signal) => {
    // Whoever asks twice does not want to wait; what is left ends with the process.
    if (interruption.signal.aborted) process.exit(SIGNALS[signal]);
    interruption.abort(new Interrupted(signal));
    if (signal === 'SIGHUP') process.once('exit', endAsHungUp);
  };
  for (const signal of Object.keys(SIGNALS)) process.on(signal, onSignal);
  try {
    const code = await run(argv, out, interruption.signal);
    process.exitCode = out.failure === undefined ? code : EXIT.failed;
  } catch (error) {
    process.exitCode = failed(error, out);
  } finally {
    for (const signal of Object.keys(SIGNALS)) process.off(signal, onSignal);
    // A terminal that was asked keeps the process alive otherwise.
    process.stdin.pause();
  }
}

/** Node cannot give a terminal that is gone its modes back, and aborts: the signal itself ends the process before that. */
function endAsHungUp() {
  const onTerminal = [process.stdin, process.stdout, process.stderr].some(({ isTTY }) => isTTY);
  if (process.platform === 'win32' || !onTerminal) return;
  process.removeAllListeners('SIGHUP');
  process.kill(process.pid, 'SIGHUP');
}

async function run(argv, out, signal) {
  const [name, ...args] = argv;
  if (name === '--version') return said(out, version);
  if (name === '--help' || name === '-h') return said(out, overview(COMMANDS.values()));
  const command = COMMANDS.get(name);
  if (command === undefined) throw new UsageError(noCommand(name));
  const { values, positionals, rest } = parse(command, args);
  if (values.help) return said(out, helpOf(command));
  return (await command.run({ values, positionals, rest, out, signal, stdin: process.stdin })) ?? EXIT.done;
}

function said(out, text) {
  out.text(text);
  return EXIT.done;
}

function noCommand(name) {
  const all = [...COMMANDS.keys()].join(', ');
  if (name === undefined) return `which command? One of ${all}`;
  if (name.startsWith('-')) return `the command comes first, before ${name}: one of ${all}`;
  return `there is no command ${JSON.stringify(name)}; there are ${all}`;
}

function failed(error, out) {
  const facts = factsOf(error);
  if (out.json) out.document({ error: facts });
  else {
    out.error(oneLine(facts));
    for (const line of lastWords(facts)) out.ask(`  stderr: ${line}`);
  }
  if (error instanceof Interrupted) return SIGNALS[error.signal];
  return error instanceof UsageError ? EXIT.usage : EXIT.failed;
}

/** What has to be known before the command line is understood: how to say that it is not. */
function outputOptions(argv) {
  const end = argv.indexOf('--');
  const own = end === -1 ? argv : argv.slice(0, end);
  return { json: own.includes('--json'), quiet: own.includes('--quiet') || own.includes('-q') };
}

module.exports = { COMMANDS, main };
