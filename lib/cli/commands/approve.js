'use strict';

const { entriesOf } = require('../entries.js');
const { CommandError } = require('../errors.js');
const { withManager } = require('../host.js');
const terminal = require('../terminal.js');
const { columns, spelled, target } = require('../words.js');

module.exports = {
  name: 'approve',
  summary: 'look at a server that the project brings, and approve it',
  usage: ['', 'SERVER'],
  about: [
    'Without a server: which ones wait. The definition is shown before you are asked; without a terminal, --yes approves',
    'what was shown. The approval holds for exactly that definition: a change waits again.',
  ],
  positionals: [0, 1],
  options: {
    yes: { type: 'boolean', short: 'y', help: 'approve without being asked' },
    reject: { type: 'boolean', help: 'reject it for good instead' },
  },
  run: (context) => {
    // What there is to know about each that waits: asked while the configuration is read, answered only afterwards.
    const asked = new Map();
    const onApproval = (request) => {
      // Of several of one name the first question is about the one that counts.
      if (!asked.has(request.server)) asked.set(request.server, request);
      return 'pending';
    };
    const [name] = context.positionals;
    return withManager(context, { onApproval }, (manager) =>
      name === undefined ? waiting(manager, context) : decide(manager, name, asked.get(name), context),
    );
  },
};

function waiting(manager, { out }) {
  const servers = manager.configReport().servers.filter(({ fate }) => fate === 'pending-approval');
  out.answer({ servers }, () =>
    columns(servers.map(({ name, file, config }) => [name, file ?? '', target(config)])),
  );
  if (servers.length === 0) out.note('no server waits for approval');
}

async function decide(manager, name, request, context) {
  const { values, out, signal } = context;
  const entry = decidedUpon(entriesOf(manager, name));
  if (entry === undefined) {
    if (values.reject) return settle(manager, name, undefined, context);
    out.answer({ name, approved: true, changed: false }, () => [`${name} does not wait for approval`]);
    return undefined;
  }
  show(entry, request?.file === entry.file ? request : undefined, out);
  if (!values.yes && !(await agreed(name, context))) {
    throw new CommandError(
      'PERMISSION_DENIED',
      `${name} was not ${values.reject ? 'rejected' : 'approved'}`,
      {
        server: name,
      },
    );
  }
  signal.throwIfAborted();
  return settle(manager, name, entry, context);
}

/** Which definition an approval is about: a report has the strongest scope first, and within one the strongest last. */
function decidedUpon(entries) {
  const open = entries.filter(({ fate }) => fate === 'pending-approval' || fate === 'rejected');
  return open.findLast(({ scope }) => scope === open[0].scope);
}

async function settle(manager, name, entry, { values, out, signal }) {
  if (values.reject) await reject(manager, name, signal);
  else await approve(manager, name, signal);
  const approved = !values.reject;
  out.answer({ name, approved, changed: true, file: entry?.file, config: entry?.config }, () => [
    `${approved ? 'approved' : 'rejected'} ${name}`,
  ]);
}

async function approve(manager, name, signal) {
  try {
    await manager.approveServer(name, { signal });
  } catch (error) {
    if (error.code !== 'SERVER_REJECTED') throw error;
    throw new CommandError(error.code, `${name} is rejected by a settings file`, {
      server: name,
      hint: 'take it out of `disabledMcpjsonServers` there',
    });
  }
}

async function reject(manager, name, signal) {
  await manager.rejectServer(name, { signal });
  const entries = entriesOf(manager, name);
  if (entries.some(({ fate }) => fate === 'rejected')) return;
  const scopes = [...new Set(entries.map(({ scope }) => scope))].join(', ');
  const message = `${name} is of scope ${scopes}, and not brought by the project`;
  throw new CommandError('SERVER_UNKNOWN', message, { server: name });
}

/** Everything to look at, on standard error: the answer of the command comes after it. */
function show({ name, file, line, config, approved }, request, out) {
  out.ask(
    `${name} in ${file}${line === undefined ? '' : `:${line}`}${request?.outsideProject ? ', outside the project' : ''}`,
  );
  if (approved !== undefined) out.ask(`approved was:\n${spelled(approved)}\nnow it is:`);
  out.ask(spelled(config));
  for (const { message } of request?.warnings ?? []) out.warning(message);
}

function agreed(name, context) {
  const verb = context.values.reject ? 'Reject' : 'Approve';
  if (terminal.present(context)) return terminal.confirmed(context, `${verb} ${name}?`);
  throw new CommandError('PERMISSION_REQUIRED', `there is no terminal to ask on`, {
    server: name,
    hint: 'run it in a terminal, or with --yes once you have read the definition',
  });
}
