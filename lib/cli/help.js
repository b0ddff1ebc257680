'use strict';
// What `--help` says, made from the same table as the parsing.

const { COMMON } = require('./parse.js');
const { columns } = require('./words.js');

function overview(commands) {
  const rows = [...commands].map(({ name, summary }) => [`  ${name}`, summary]);
  return [
    'The host side of MCP on the command line: the servers of your configuration, their tools and more.',
    '',
    'Usage: mcp-switchboard COMMAND [ARGUMENT…] [OPTION…]',
    '',
    'Commands:',
    ...columns(rows),
    '',
    'Options of every command:',
    ...optionLines(COMMON),
    '',
    'Exit codes: 0 done, 1 failed, 2 not understood, 128 + n stopped by signal n.',
    'More about a command: mcp-switchboard COMMAND --help',
  ].join('\n');
}

function helpOf({ name, summary, usage, about, options = {}, examples }) {
  const forms = usage.map((form) => `mcp-switchboard ${name} ${form}`.trimEnd());
  return [
    `${summary[0].toUpperCase()}${summary.slice(1)}.`,
    '',
    ...forms.map((form, at) => `${at === 0 ? 'Usage: ' : '       '}${form}`),
    ...(about === undefined ? [] : ['', ...about]),
    '',
    'Options:',
    ...optionLines({ ...options, ...COMMON }),
    ...(examples === undefined ? [] : ['', 'Examples:', ...examples.map((one) => `  ${one}`)]),
  ].join('\n');
}

function optionLines(options) {
  return columns(
    Object.entries(options).map(([name, { short, value, help, choices }]) => [
      `  ${short === undefined ? '' : `-${short}, `}--${name}${value === undefined ? '' : ` ${value}`}`,
      choices === undefined ? help : `${help}: ${choices.join(', ')}`,
    ]),
  );
}

module.exports = { helpOf, overview };
