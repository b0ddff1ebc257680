'use strict';
// The words behind a command: options, positionals, and what follows `--` where a command wants that.

const { statSync } = require('node:fs');
const { parseArgs } = require('node:util');
const { UsageError } = require('./errors.js');

/** Options of every command. */
const COMMON = {
  json: { type: 'boolean', help: 'one JSON document on standard output, also for errors' },
  quiet: { type: 'boolean', short: 'q', help: 'no progress and no notes' },
  cwd: { type: 'string', value: 'DIR', help: 'the directory to look for configuration in' },
  'config-dir': { type: 'string', value: 'NAME', help: 'name of the configuration directory (.claude)' },
  timeout: { type: 'string', value: 'SECONDS', help: 'longest wait for a server' },
  help: { type: 'boolean', short: 'h', help: 'this text' },
};

function parse(command, args) {
  const end = command.rest === undefined ? -1 : args.indexOf('--');
  const rest = end === -1 ? undefined : args.slice(end + 1);
  const { values, positionals } = parsed(command, end === -1 ? args : args.slice(0, end));
  if (values.help) return { values, positionals, rest };
  const [least, most] = command.positionals ?? [0, 0];
  if (positionals.length < least)
    throw new UsageError(`${command.name}: too few arguments; ${usage(command)}`);
  if (positionals.length > most)
    throw new UsageError(
      `${command.name}: ${JSON.stringify(positionals[most])} is one argument too many; ${usage(command)}`,
    );
  for (const [name, { choices }] of Object.entries(command.options ?? {})) {
    if (choices === undefined || values[name] === undefined || choices.includes(values[name])) continue;
    throw new UsageError(
      `${command.name}: --${name} is one of ${choices.join(', ')}, not ${JSON.stringify(values[name])}`,
    );
  }
  placesOf(values);
  return { values: { ...values, timeoutMs: milliseconds(values.timeout) }, positionals, rest };
}

function parsed(command, args) {
  const options = Object.fromEntries(
    Object.entries({ ...command.options, ...COMMON }).map(([name, { type, short, multiple }]) => [
      name,
      { type, ...(short && { short }), ...(multiple && { multiple }) },
    ]),
  );
  try {
    return parseArgs({ args, options, allowPositionals: true });
  } catch (error) {
    if (!String(error.code).startsWith('ERR_PARSE_ARGS')) throw error;
    const [first] = error.message.split(/\.\s|\n/);
    throw new UsageError(`${command.name}: ${first}`);
  }
}

/** A directory that is not there is a slip of the pen: nothing is made there, and nothing is not found there. */
function placesOf({ cwd, 'config-dir': name }) {
  if (cwd !== undefined && statSync(cwd, { throwIfNoEntry: false })?.isDirectory() !== true)
    throw new UsageError(`--cwd: there is no directory ${JSON.stringify(cwd)}`);
  if (name !== undefined && /^\.*$|[/\\:]/.test(name))
    throw new UsageError(`--config-dir is the name of a directory, without separators`);
}

function milliseconds(text) {
  if (text === undefined) return undefined;
  const ms = Math.round(Number(text) * 1000);
  if (text.trim() === '' || !(ms > 0 && ms < 2 ** 31)) {
    throw new UsageError(`--timeout is a number of seconds above zero, not ${JSON.stringify(text)}`);
  }
  return ms;
}

function usage({ name, usage: forms }) {
  return `usage: ${forms.map((form) => `mcp-switchboard ${name} ${form}`.trimEnd()).join(' | ')}`;
}

module.exports = { COMMON, parse };
