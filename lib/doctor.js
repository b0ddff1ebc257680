'use strict';
/** What is wrong, on what evidence, what happens next and what a person can do: status and report in one (BEY-05). */

/** The given members that are there; `undefined` when none is. */
function present(members) {
  const there = Object.entries(members).filter(([, value]) => value !== undefined);
  return there.length > 0 ? Object.fromEntries(there) : undefined;
}

function examine(status) {
  const { name: server, state, code, reason: message } = status;
  const { stderrTail, exit, httpStatus, firstBytes, listErrors, lastContactAt } = status;
  const failed = code !== undefined || listErrors !== undefined;
  return present({
    server,
    state,
    healthy: !failed,
    cause: present({ code, message }),
    evidence: failed
      ? present({ stderrTail, exit, httpStatus, firstBytes, listErrors, lastContactAt })
      : undefined,
    next: present({ at: status.nextRetryAt, attempt: status.attempt, maxAttempts: status.maxAttempts }),
    advice: status.hint,
  });
}

/** The report of `McpManager.doctor()`. */
function doctor(statuses, configuration, version) {
  const servers = statuses.map(examine);
  const { errors, warnings } = configuration;
  const unused = configuration.servers
    .filter(({ fate }) => fate !== 'active')
    .map(({ name, scope, file, line, fate, by, reason }) =>
      present({ server: name, fate, by, reason, scope, file, line }),
    );
  return {
    healthy: servers.every(({ healthy }) => healthy) && errors.length === 0,
    version,
    node: process.versions.node,
    platform: `${process.platform}-${process.arch}`,
    time: Date.now(),
    servers,
    configuration: { errors, warnings, unused },
  };
}

module.exports = { doctor };
