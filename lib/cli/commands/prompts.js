'use strict';

const { blockText } = require('../blocks.js');
const { UsageError } = require('../errors.js');
const { reach, withManager } = require('../host.js');
const { columns, short } = require('../words.js');

module.exports = {
  name: 'prompts',
  summary: 'list the prompts of all servers, or of one, or fill one in',
  usage: ['[SERVER]', '--get PROMPT [KEY=VALUE…]'],
  about: ['PROMPT is a full name (mcp__server__prompt), as listed.'],
  positionals: [0, Infinity],
  options: {
    get: { type: 'string', value: 'PROMPT', help: 'fill this prompt in, with the arguments given' },
  },
  examples: ['mcp-switchboard prompts --get mcp__notes__summary topic=plans'],
  run: (context) => {
    const { values, positionals } = context;
    if (values.get !== undefined) return withManager(context, {}, (manager) => fill(manager, context));
    if (positionals.length > 1) throw new UsageError('prompts: one server at most; --get fills a prompt in');
    return withManager(context, {}, (manager) => list(manager, context));
  },
};

async function list(manager, context) {
  const { out, signal } = context;
  const [server] = context.positionals;
  const problems = await reach(manager, server, context);
  const prompts = await manager.listPrompts({ server, signal });
  out.answer({ prompts, problems }, () =>
    columns(
      prompts.map((prompt) => [
        prompt.name,
        prompt.arguments.map(({ name, required }) => (required ? name : `[${name}]`)).join(' '),
        short(prompt.description ?? prompt.title ?? ''),
      ]),
      (cell, at) => (at === 0 ? out.paint(cell, 'bold') : cell),
    ),
  );
  if (prompts.length === 0) out.note('no prompts');
}

async function fill(manager, context) {
  const { values, positionals, out, signal } = context;
  const args = Object.fromEntries(positionals.map(pair));
  const prompt = await manager.getPrompt(values.get, args, { signal });
  out.answer(prompt, () =>
    prompt.messages.map(({ role, content }) => `${out.paint(`${role}:`, 'bold')} ${blockText(content)}`),
  );
}

function pair(word) {
  const at = word.indexOf('=');
  if (at < 1) throw new UsageError(`prompts: ${JSON.stringify(word)} is no key=value`);
  return [word.slice(0, at), word.slice(at + 1)];
}
