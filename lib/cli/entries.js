'use strict';
// Entries of the configuration by the name of their server.

const { CommandError } = require('./errors.js');

/** All definitions of that name. @throws CommandError `SERVER_UNKNOWN`, as the API says it. */
function entriesOf(manager, name) {
  const { servers } = manager.configReport();
  const entries = servers.filter((entry) => entry.name === name);
  if (entries.length > 0) return entries;
  const folded = name.toLowerCase();
  const near = servers.map((entry) => entry.name).filter((other) => like(other.toLowerCase(), folded));
  throw new CommandError('SERVER_UNKNOWN', `no server ${JSON.stringify(name)} is configured`, {
    server: name,
    suggestions: [...new Set(near)].slice(0, 3),
  });
}

const like = (left, right) => left.includes(right) || right.includes(left) || left[0] === right[0];

module.exports = { entriesOf };
