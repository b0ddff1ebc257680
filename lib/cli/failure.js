'use strict';
// An error as one JSON object, and as one line that says what to do.

const { CommandError } = require('./errors.js');
const { quoted } = require('./words.js');

/** Of what a server said last, as many lines are shown. */
const LAST_LINES = 5;
const doctor = '`mcp-switchboard doctor` has what it said last';
const all = '`mcp-switchboard list` shows all servers';

/** What a person can do about an error code, with the tool itself. */
const ADVICE = {
  USAGE: () => '`mcp-switchboard COMMAND --help` shows how',
  SERVER_UNKNOWN: () => all,
  SERVER_NOT_APPROVED: ({ server }) => `look at it with \`mcp-switchboard approve ${quoted(server)}\``,
  SERVER_REJECTED: ({ server }) =>
    `\`mcp-switchboard approve ${quoted(server)}\` takes the rejection back, unless \`disabledMcpjsonServers\` names it`,
  SERVER_DISABLED: () => 'take it out of `disabledMcpServers`, or drop `"disabled": true`',
  SERVER_EXISTS: ({ server }) => `see \`mcp-switchboard get ${quoted(server)}\`, or remove it first`,
  POLICY_DENIED: ({ rule }) => (rule ? `the entry ${rule} decides` : undefined),
  TOOL_UNKNOWN: ({ server }) => `\`mcp-switchboard tools${server ? ` ${quoted(server)}` : ''}\` lists them`,
  PROMPT_UNKNOWN: () => '`mcp-switchboard prompts` lists them',
  PERMISSION_REQUIRED: () =>
    'run it in a terminal to be asked, add a rule to `permissions.allow` of your settings, or answer with --yes',
  PERMISSION_DENIED: ({ layer, rule }) => (layer === 'rule' ? `the rule ${rule} has to go first` : undefined),
  AUTH_REQUIRED: ({ server }) => `log in with \`mcp-switchboard auth ${quoted(server)}\``,
  AUTH_SCOPE_INSUFFICIENT: ({ server }) => `log in anew with \`mcp-switchboard auth ${quoted(server)}\``,
  TIMEOUT: () => '--timeout SECONDS gives it longer',
  CONNECT_TIMEOUT: () => '--timeout SECONDS gives it longer',
  RETRIES_EXHAUSTED: () => doctor,
  SERVER_EXITED: ({ stderrTail = [] }) => (stderrTail.length > 0 ? undefined : doctor),
  INPUT_INVALID: () => '`mcp-switchboard tools SERVER --json` has the schema of the arguments',
};

const adviceFor = (facts) => ADVICE[facts.code]?.(facts);

/** Everything that is known of an error, as JSON can hold it; `message` without line ends. */
function factsOf(thrown) {
  const error = reasonOf(thrown);
  const { code = 'INTERNAL', message = String(error) } = error ?? {};
  const { hint: given, ...facts } = { code, message: message.replace(/\s*\n\s*/g, ' '), ...ownOf(error) };
  const hint = error instanceof CommandError && given !== undefined ? given : (adviceFor(facts) ?? given);
  return hint === undefined ? facts : { ...facts, hint };
}

/** The only try of a connection failed: why is the news, not that there was no other. */
function reasonOf(error) {
  return error?.code === 'RETRIES_EXHAUSTED' && error.attempts === 1 && error.cause ? error.cause : error;
}

function ownOf(error) {
  const { code: _code, message: _message, ...own } = { ...error };
  return own;
}

function oneLine({ code, message, suggestions, hint }) {
  const near = suggestions?.length > 0 ? ` – did you mean ${suggestions.join(' or ')}?` : '';
  return `${code}: ${message}${near}${hint === undefined ? '' : ` – ${hint}`}`;
}

/** What the server of an error said last, where the message does not have it. */
function lastWords({ message, stderrTail = [] }) {
  const [last] = stderrTail.slice(-1);
  return stderrTail.length > 1 || !message.includes(last ?? '') ? stderrTail.slice(-LAST_LINES) : [];
}

module.exports = { adviceFor, factsOf, lastWords, oneLine };
