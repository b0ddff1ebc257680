import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { classifyTool, McpManager, type McpManagerOptions } from '..';
import { thrown, toolsOf, withFaulty } from './harness';
import { classify, classifySeen, wordsOf } from '../scripts/tool-names/rules.mjs';
import { dummyEnvironment, toolNamesIn } from '../scripts/tool-names/sources.mjs';
import samples from './fixtures/public-tools.json' with { type: 'json' };

const root = join(__dirname, '..');
const table = (kind: string) =>
  readFileSync(join(root, `src/protocol/data/${kind}-tools.txt`), 'utf8')
    .split('\n')
    .filter((line) => line && !line.startsWith('#'))
    .map((line) => line.split('\t'));

describe('the tables of tool names', () => {
  test('TOL-04 more than 200 names search, more than 500 read, none does both', () => {
    const search = table('search').map(([name]) => wordsOf(name).join('_'));
    const read = table('read').map(([name]) => wordsOf(name).join('_'));
    expect(search.length).toBeGreaterThan(200);
    expect(read.length).toBeGreaterThan(500);
    expect(new Set([...search, ...read]).size).toBe(search.length + read.length);
  });

  test('TOL-04 every name says in which package and version it was seen, and is in force', () => {
    const servers = JSON.parse(readFileSync(join(root, 'scripts/tool-names/servers.json'), 'utf8')) as {
      package: string;
      version: string;
    }[];
    const known = new Set(servers.map((server) => `${server.package}@${server.version}`));
    for (const kind of ['search', 'read'] as const) {
      for (const [name, where, how, ...rest] of table(kind)) {
        expect(known, name).toContain(where);
        expect([undefined, 'sources'], name).toContain(how);
        expect(rest, name).toEqual([]);
        expect(classifyTool(name), name).toBe(kind);
      }
    }
  });
});

describe('tools of public servers', () => {
  test('the samples come from at least ten servers and show all three answers', () => {
    expect(new Set(samples.map((sample) => sample.package)).size).toBeGreaterThanOrEqual(10);
    for (const kind of ['search', 'read', 'unknown']) {
      expect(samples.filter(({ expected }) => expected === kind).length).toBeGreaterThanOrEqual(10);
    }
  });

  test.each(samples)('TOL-04 $tool of $package@$version → $expected', ({ tool, expected }) => {
    expect(classifyTool(tool)).toBe(expected);
  });
});

describe('names that a host knows better', () => {
  const names = { search: ['look_up_orders'], read: ['peek-order'], unknown: ['read_text_file'] };

  test('TOL-04 are given to classifyTool', () => {
    expect(classifyTool('lookUpOrders', names)).toBe('search');
    expect(classifyTool('peek_order', names)).toBe('read');
    expect(classifyTool('readTextFile', names)).toBe('unknown');
    expect(classifyTool('search_files', names)).toBe('search');
    expect(classifyTool('peek_order', {})).toBe('unknown');
  });

  test('TOL-04 are an option, and say what may run beside others', async () => {
    const options = { classification: { read: ['echo'], search: ['sleep'] } };
    await withFaulty(
      [],
      async (manager) => {
        const tools = new Map((await toolsOf(manager)).map((tool) => [tool.mcpInfo.toolName, tool]));
        expect(tools.get('echo')?.classification).toBe('read');
        expect(tools.get('sleep')?.classification).toBe('search');
        expect(tools.get('sleep')?.isConcurrencySafe).toBe(true);
      },
      options,
    );
  });

  test.each([
    [{ reed: [] }, 'reed'],
    [{ read: 'peek' }, 'read'],
    [{ read: [7] }, 'read[0]'],
  ])('TOL-04 a mistake is named: %j', (wrong, where) => {
    const options = { classification: wrong } as unknown as McpManagerOptions;
    expect(thrown(() => new McpManager(options))).toMatchObject({
      code: 'INVALID_ARGUMENT',
      parameter: `options.classification.${where}`,
    });
    expect(thrown(() => classifyTool('x', wrong as never))).toMatchObject({ parameter: `names.${where}` });
  });
});

describe('gathering the names', () => {
  test('words of a name', () => {
    for (const [name, words] of [
      ['getHTTPStatus', 'get http status'],
      ['list__all-things', 'list all things'],
      ['v2List', 'v2 list'],
      ['API-post-search', 'api post search'],
      ['hosting_getNode_jsBuildV1', 'hosting get node js build v1'],
    ]) {
      expect(wordsOf(name).join(' ')).toBe(words);
    }
  });

  test.each([
    ['search_issues', {}, 'search'],
    ['web_search_exa', {}, 'search'],
    ['wiki_search_pages', {}, 'search'],
    ['list_issues', {}, 'read'],
    ['wit_get_work_item', {}, 'read'],
    ['issue_read', {}, 'read'],
    ['check_status', { readOnlyHint: true }, 'read'],
    ['check_status', {}, undefined],
    ['list_issues', { readOnlyHint: false }, undefined],
    ['list_issues', { destructiveHint: true }, undefined],
    ['list_issues', { destructiveHint: true, readOnlyHint: true }, 'read'],
    ['search', {}, undefined],
    ['find_and_replace', {}, undefined],
    ['get_or_create_user', {}, undefined],
    ['create_saved_search', {}, undefined],
    ['run_query', {}, undefined],
    ['query_database', {}, undefined],
    ['post_message', {}, undefined],
    ['start_search', {}, undefined],
  ])('TOL-04 the rules: %s %j → %s', (name, annotations, kind) => {
    expect(classify(name, [annotations]).kind).toBe(kind);
  });

  test('one server that says a name changes something keeps it out; a person has the last word', () => {
    const server = (name: string, tool: string, annotations = {}) => ({
      package: name,
      version: '1.0.0',
      how: 'listed',
      tools: [{ name: tool, annotations }],
    });
    const servers = [
      server('a', 'get_thing'),
      server('b', 'getThing', { readOnlyHint: false }),
      server('c', 'list_odd'),
    ];
    const kinds = (review: object) => classifySeen(servers, review).map(({ name, kind }) => [name, kind]);
    expect(kinds({})).toEqual([
      ['get_thing', undefined],
      ['list_odd', 'read'],
    ]);
    expect(kinds({ leftOut: { list_odd: 'it acts' }, search: ['get_thing'] })).toEqual([
      ['get_thing', 'search'],
      ['list_odd', undefined],
    ]);
  });

  test('names in JavaScript that is not run', () => {
    const script = `
      server.tool("list_things", "Lists", {}, run); registerTool('readThing', {}, run);
      const tools = [{ name: "get_thing", description: "Gets", inputSchema: {} }];
      const prompts = [{ name: "write_poem", description: "A poem", arguments: [] }];
      tool("single", {}); other("get_nothing", {});`;
    expect(toolNamesIn(script).sort()).toEqual(['get_thing', 'list_things', 'readThing']);
  });

  test('variables that a server asks for get values that reach nothing', () => {
    const script = `process.env.ACME_API_KEY; process.env["ACME_URL"]; process.env.NODE_ENV; process.env.HTTP_PROXY; env.PORT`;
    expect(dummyEnvironment(script)).toEqual({ ACME_API_KEY: 'dummy', ACME_URL: 'http://127.0.0.1:9' });
  });
});
