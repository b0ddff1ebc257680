'use strict';

const { UsageError } = require('../errors.js');
const { reach, withManager } = require('../host.js');
const { columns, short, size } = require('../words.js');

module.exports = {
  name: 'resources',
  summary: 'list the resources of all servers, or of one, or read one',
  usage: ['[SERVER]', 'SERVER --read URI'],
  about: ['What is binary is saved in a private file, whose path is printed.'],
  positionals: [0, 1],
  options: { read: { type: 'string', value: 'URI', help: 'read this resource of the server' } },
  examples: ['mcp-switchboard resources notes --read note://today'],
  run: (context) => {
    const [server] = context.positionals;
    const { read } = context.values;
    if (read !== undefined && server === undefined)
      throw new UsageError('resources: --read wants the server too');
    return withManager(context, {}, (manager) =>
      read === undefined ? list(manager, server, context) : readOne(manager, server, read, context),
    );
  },
};

async function list(manager, server, context) {
  const { out, signal } = context;
  const problems = await reach(manager, server, context);
  const [resources, templates] = await Promise.all([
    optional(manager.listResources({ server, signal })),
    optional(manager.listResourceTemplates({ server, signal })),
  ]);
  out.answer({ resources, templates, problems }, () =>
    columns(
      [...resources, ...templates].map((one) => [
        one.server,
        one.uri ?? one.uriTemplate,
        short([one.title ?? one.name, one.mimeType, one.description].filter(Boolean).join(' · ')),
      ]),
      (cell, at) => (at === 1 ? out.paint(cell, 'bold') : cell),
    ),
  );
  if (resources.length + templates.length === 0) out.note('no resources');
}

/** A server without resources has none; that is no failure. */
async function optional(listing) {
  try {
    return await listing;
  } catch (error) {
    if (error.code === 'CAPABILITY_MISSING') return [];
    throw error;
  }
}

async function readOne(manager, server, uri, context) {
  const { out, signal } = context;
  await reach(manager, server, context);
  const contents = await manager.readResource(server, uri, { signal });
  if (out.json) return out.document({ contents });
  for (const { text, path, mimeType, bytes } of contents)
    out.content(text ?? `[file ${path}${mimeType ? ` ${mimeType}` : ''}, ${size(bytes ?? 0)}]`);
  return undefined;
}
