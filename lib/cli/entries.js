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

/** Whether one is part of the other, or about every third letter at most is another one. */
const like = (left, right) =>
  left.includes(right) ||
  right.includes(left) ||
  distance(left, right) <= Math.ceil(Math.max(left.length, right.length) / 3);

/** How many letters have to be put in, taken out or changed. */
function distance(left, right) {
  let row = Array.from({ length: right.length + 1 }, (_, at) => at);
  for (let i = 1; i <= left.length; i++) {
    const next = [i];
    for (let j = 1; j <= right.length; j++) {
      const changed = row[j - 1] + (left[i - 1] === right[j - 1] ? 0 : 1);
      next.push(Math.min(changed, row[j] + 1, next[j - 1] + 1));
    }
    row = next;
  }
  return row[right.length];
}

module.exports = { entriesOf };
