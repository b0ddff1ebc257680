'use strict';
// The definition of a server from the options of `add`.

const { UsageError } = require('./errors.js');

function definitionOf(values, command) {
  const { url, transport, header = [], env = [], 'server-cwd': cwd } = values;
  if (url !== undefined && command !== undefined)
    throw new UsageError('add: either --url or a command behind --, not both');
  if (url !== undefined) {
    if (env.length > 0 || cwd !== undefined)
      throw new UsageError('add: --env and --server-cwd are for servers that are started, not for a URL');
    const headers = pairs(header, ':', 'header', 'NAME: VALUE');
    return { type: transport ?? typeOf(url), url, ...(header.length > 0 && { headers }) };
  }
  if (command === undefined || command.length === 0)
    throw new UsageError('add: what is the server? --url URL, or its command behind --');
  if (header.length > 0 || transport !== undefined)
    throw new UsageError('add: --header and --transport are for servers behind a URL');
  const [program, ...args] = command;
  return {
    type: 'stdio',
    command: program,
    ...(args.length > 0 && { args }),
    ...(env.length > 0 && { env: pairs(env, '=', 'env', 'NAME=VALUE') }),
    ...(cwd !== undefined && { cwd }),
  };
}

const typeOf = (url) => (/^wss?:/i.test(url) ? 'ws' : 'http');

function pairs(texts, separator, option, form) {
  return Object.fromEntries(
    texts.map((text) => {
      const at = text.indexOf(separator);
      // The value may be a secret and is not repeated.
      if (at < 1) throw new UsageError(`add: --${option} is ${form}`);
      const value = text.slice(at + 1);
      return [text.slice(0, at).trim(), separator === ':' ? value.trim() : value];
    }),
  );
}

module.exports = { definitionOf };
