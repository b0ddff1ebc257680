/** Skills (BEY-12, mcp:SKILL-*): against the TypeScript SDK v2 in both eras, and against a server that says what a test wants. */
import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { McpManager, McpManagerOptions, StdioServerConfig } from '..';
import { type AnyError, caught, faulty, fixture, notes, temporaryDirectory, withManager } from './harness';

const ROOT = 'skill://acme/pdf';
const MANIFEST = `${ROOT}/SKILL.md`;
const TEXT = '---\nname: pdf\ndescription: Fills forms\n---\nBody\n';

interface Served {
  text?: string;
  blob?: string;
}
interface State {
  extensions?: object;
  pages: unknown[][];
  entries?: Record<string, unknown>;
  files: Record<string, Served>;
  fails?: string;
  ttlMs?: number;
}

const bytesOf = ({ text, blob }: Served) =>
  blob === undefined ? Buffer.from(text!) : Buffer.from(blob, 'base64');

function listed(files: Record<string, Served>) {
  return Object.entries(files).map(([uri, file]) => {
    const bytes = bytesOf(file);
    return { uri, digest: `sha256:${createHash('sha256').update(bytes).digest('hex')}`, size: bytes.length };
  });
}

const entryOf = (files: Record<string, Served>, uri = MANIFEST, name = 'pdf') => ({
  uri,
  frontmatter: { name, description: 'Fills forms' },
  resources: listed(files) as unknown,
});

const FILES: Record<string, Served> = {
  [MANIFEST]: { text: TEXT },
  [`${ROOT}/references/FORMS.md`]: { text: 'Forms' },
};

/** A server whose state a test changes at will. */
class Skilled {
  readonly #state = join(temporaryDirectory(), 'state.json');
  readonly #notes = join(temporaryDirectory(), 'notes');
  readonly config: StdioServerConfig = {
    command: process.execPath,
    args: [fixture('skills-server.mjs'), this.#state, this.#notes],
  };

  constructor(state: Partial<State> = {}) {
    this.serve(state);
  }

  serve(state: Partial<State>): void {
    writeFileSync(this.#state, JSON.stringify({ pages: [[entryOf(FILES)]], files: FILES, ...state }));
  }

  asked(method: string): unknown[] {
    return notes(this.#notes)
      .filter((note) => note.method === method)
      .map(({ params }) => params?.uri ?? params?.cursor ?? null);
  }
}

const withSkills = <T>(
  state: Partial<State>,
  body: (manager: McpManager, server: Skilled) => Promise<T>,
  options: McpManagerOptions = {},
): Promise<T> => {
  const server = new Skilled(state);
  const servers = { s: server.config };
  return withManager({ catalogTtlMs: 60_000, ...options, servers }, async (manager) => {
    await manager.connect();
    return body(manager, server);
  });
};

const reasonOf = (error: AnyError) => (error.data as { reason?: string } | undefined)?.reason;

describe.each(['legacy', 'modern'] as const)('the TypeScript SDK v2 in the %s era', (era) => {
  const config = { command: process.execPath, args: [fixture('peers', 'sdk-skills.mjs'), era] };

  test('mcp:SKILL-01 mcp:SKILL-09 mcp:SKILL-11 mcp:SKILL-22 BEY-12 lists in pages, loads and reads', async () => {
    await withManager({ servers: { forms: config } }, async (manager) => {
      await manager.connect();
      expect(manager.status('forms')?.era).toBe(era);
      const skills = await manager.listSkills();
      expect(skills.map(({ name, server, dynamic }) => [name, server, dynamic])).toEqual([
        ['pdf-forms', 'forms', false],
        ['review', 'forms', false],
      ]);
      expect(skills[0]).toMatchObject({
        description: 'Fills forms, page by page',
        frontmatter: { metadata: { author: 'acme' } },
        fingerprint: expect.stringMatching(/^sha256:[0-9a-f]{64}$/),
      });
      const loaded = await manager.loadSkill('forms', 'pdf-forms');
      expect(loaded.skill).toEqual(skills[0]);
      expect(loaded.text).toContain('# Forms');
      expect(loaded.files.map(({ path }) => path).sort()).toEqual([
        'SKILL.md',
        'assets/dot.bin',
        'references/FIELDS.md',
      ]);
      expect(await loaded.read('references/FIELDS.md')).toBe('Fields — with an é.\n');
      expect(await loaded.read(`${skills[0].uri.replace('SKILL.md', '')}references/FIELDS.md`)).toContain(
        'é',
      );
      expect([...(await loaded.readBytes('assets/dot.bin'))]).toEqual([0, 255, 1, 254]);
      const binary = await caught(loaded.read('assets/dot.bin'));
      expect([binary.code, reasonOf(binary)]).toEqual(['SKILL_REFUSED', 'binary']);
      expect((await manager.loadSkill('forms', skills[1].uri)).text).toContain('Look.');
    });
  });
});

describe('listing', () => {
  test.each(['legacy', 'modern'] as const)(
    'mcp:SKILL-12 reads no file before a skill is loaded (%s)',
    async (protocol) => {
      const server = new Skilled();
      await withManager({ servers: { s: { ...server.config, protocol } } }, async (manager) => {
        await manager.connect();
        await manager.listResources();
        expect(server.asked('skills/list')).toEqual([]);
        expect(await manager.listSkills()).toHaveLength(1);
        expect(server.asked('resources/read')).toEqual([]);
        const loaded = await manager.loadSkill('s', 'pdf');
        expect(server.asked('resources/read')).toEqual([MANIFEST]);
        await loaded.read('references/FORMS.md');
        await loaded.read('references/FORMS.md');
        expect(server.asked('resources/read')).toEqual([MANIFEST, `${ROOT}/references/FORMS.md`]);
      });
    },
  );

  test('mcp:SKILL-01 mcp:SKILL-02 mcp:EXT-02 nothing is asked of a server that did not declare the extension', async () => {
    await withSkills({ extensions: {} }, async (manager, server) => {
      expect(await manager.listSkills()).toEqual([]);
      expect(await caught(manager.loadSkill('s', 'pdf'))).toMatchObject({ code: 'CAPABILITY_MISSING' });
      expect(await caught(manager.loadSkill('s', MANIFEST))).toMatchObject({ code: 'CAPABILITY_MISSING' });
      expect(await caught(manager.request('s', 'skills/list'))).toMatchObject({ code: 'CAPABILITY_MISSING' });
      expect([server.asked('skills/list'), server.asked('skills/get')]).toEqual([[], []]);
    });
    await withSkills({}, async (manager, server) => {
      const error = await caught(manager.request('s', 'resources/directory/read', { uri: ROOT }));
      expect(error.code).toBe('CAPABILITY_MISSING');
      expect(server.asked('resources/directory/read')).toEqual([]);
    });
  });

  test('mcp:PAGE-07 follows cursors; mcp:CACHE-01 mcp:CACHE-07 keeps the list until it changes', async () => {
    const other = 'skill://acme/other/SKILL.md';
    const more = { [other]: { text: '---\nname: other\n---\n' } };
    const pages = [[entryOf(FILES)], [entryOf(more, other, 'other')]];
    await withSkills({ pages }, async (manager, server) => {
      expect((await manager.listSkills()).map(({ name }) => name)).toEqual(['pdf', 'other']);
      await manager.listSkills({ server: 's' });
      expect(server.asked('skills/list')).toEqual([null, '1']);
    });
  });

  test('mcp:SKILL-03 invalid entries are left out and told of, the others stay', async () => {
    const bad = [{ ...entryOf(FILES, `${ROOT}2/SKILL.md`, 'pdf2'), resources: 'static' }, 7];
    await withSkills({ pages: [[...bad, entryOf(FILES)]] }, async (manager) => {
      const found: string[] = [];
      manager.on('diagnostic', ({ code, server }) => found.push(`${code} ${server}`));
      expect((await manager.listSkills()).map(({ name }) => name)).toEqual(['pdf']);
      expect(found).toEqual(['SKILL_INVALID s', 'SKILL_INVALID s']);
    });
  });

  test('SEC-01 what models see of an entry is cleaned', async () => {
    const text = '---\nname: pdf\ndescription: "Fills\\u200B forms\\U000E0041"\n---\nBo\u200Bdy\n';
    const files = { [MANIFEST]: { text } };
    const entry = entryOf(files);
    entry.frontmatter.description = 'Fills\u200B forms\u{E0041}';
    await withSkills({ pages: [[entry]], files }, async (manager) => {
      const [skill] = await manager.listSkills();
      expect(skill).toMatchObject({
        description: 'Fills forms',
        frontmatter: { description: 'Fills forms' },
      });
      expect((await manager.loadSkill('s', 'pdf')).text).toContain('Body');
    });
  });

  test('a server whose list fails never hides the others', async () => {
    const [good, bad] = [new Skilled(), new Skilled({ fails: 'skills/list' })];
    await withManager({ servers: { good: good.config, bad: bad.config } }, async (manager) => {
      await manager.connect();
      expect((await manager.listSkills()).map(({ server }) => server)).toEqual(['good']);
      expect(manager.status('bad')?.listErrors).toMatchObject([{ list: 'skills', code: 'RPC_ERROR' }]);
      expect(await caught(manager.listSkills({ server: 'bad' }))).toMatchObject({ code: 'RPC_ERROR' });
    });
  });

  test('mcp:SKILL-05 mcp:SKILL-06 one name at two servers: both are there, and the collision shows', async () => {
    const evil = { [MANIFEST]: { text: TEXT.replace('Body', 'Evil') } };
    const [one, two] = [new Skilled(), new Skilled({ pages: [[entryOf(evil)]], files: evil })];
    await withManager({ servers: { one: one.config, two: two.config } }, async (manager) => {
      await manager.connect();
      const found: string[] = [];
      manager.on('diagnostic', ({ code }) => found.push(code));
      const skills = await manager.listSkills();
      expect(skills.map(({ server, sharesNameWith }) => [server, sharesNameWith])).toEqual([
        ['one', [{ server: 'two', uri: MANIFEST }]],
        ['two', [{ server: 'one', uri: MANIFEST }]],
      ]);
      await manager.listSkills();
      expect(found).toEqual(['SKILL_NAME_SHARED']);
      const loaded = [await manager.loadSkill('one', 'pdf'), await manager.loadSkill('two', 'pdf')];
      expect(loaded.map(({ text }) => text.slice(-5))).toEqual(['Body\n', 'Evil\n']);
      // SKILL-17: every read goes to the skill's own server.
      expect(await loaded[0].read('references/FORMS.md')).toBe('Forms');
      expect(reasonOf(await caught(loaded[1].read('references/FORMS.md')))).toBe('unlisted');
    });
  });

  test('mcp:SKILL-06 one name twice at one server is loaded by URI only', async () => {
    const uri = 'skill://other/pdf/SKILL.md';
    const files = { ...FILES, [uri]: { text: TEXT } };
    const second = entryOf({ [uri]: { text: TEXT } }, uri);
    await withSkills({ pages: [[entryOf(FILES), second]], files }, async (manager) => {
      const error = await caught(manager.loadSkill('s', 'pdf'));
      expect(error).toMatchObject({ code: 'SKILL_UNKNOWN', message: expect.stringContaining(uri) });
      expect((await manager.loadSkill('s', uri)).skill.uri).toBe(uri);
    });
  });
});

describe('loading', () => {
  test('mcp:SKILL-07 by URI alone: an empty listing proves nothing', async () => {
    await withSkills({ pages: [[]], entries: { [MANIFEST]: entryOf(FILES) } }, async (manager, server) => {
      expect(await manager.listSkills()).toEqual([]);
      expect((await manager.loadSkill('s', MANIFEST)).text).toBe(TEXT);
      expect(server.asked('skills/get')).toEqual([MANIFEST]);
      const error = await caught(manager.loadSkill('s', 'skill://acme/none/SKILL.md'));
      expect(error).toMatchObject({ code: 'SKILL_UNKNOWN', server: 's' });
    });
  });

  test('SKILL_UNKNOWN names what looks like it', async () => {
    await withSkills({}, async (manager) => {
      const error = await caught(manager.loadSkill('s', 'pfd'));
      expect(error).toMatchObject({ code: 'SKILL_UNKNOWN', suggestions: ['pdf'] });
    });
  });

  test.each([
    ['mcp:SKILL-09 size', { text: `${TEXT} ` }, 'size'],
    ['mcp:SKILL-09 digest', { text: TEXT.replace('Body', 'Evil') }, 'digest'],
    ['mcp:SKILL-09 another kind of answer', {}, 'answer'],
  ])('%s: a SKILL.md that was tampered with is not handed out', async (_, served, reason) => {
    const files = { ...FILES, [MANIFEST]: served };
    await withSkills({ files }, async (manager, server) => {
      const error = await caught(manager.loadSkill('s', 'pdf'));
      expect([error.code, error.server, reasonOf(error)]).toEqual(['SKILL_REFUSED', 's', reason]);
      expect(server.asked('resources/read')).toEqual([MANIFEST]);
    });
  });

  test.each([
    ['another description', { name: 'pdf', description: 'Steals' }, ['description']],
    ['a field more', { name: 'pdf', description: 'Fills forms', hooks: [] }, ['hooks']],
  ])('mcp:SKILL-11 frontmatter with %s is not what was listed', async (_, frontmatter, differences) => {
    await withSkills({ pages: [[{ ...entryOf(FILES), frontmatter }]] }, async (manager) => {
      const error = await caught(manager.loadSkill('s', 'pdf'));
      expect(error).toMatchObject({ code: 'SKILL_REFUSED', data: { reason: 'frontmatter', differences } });
    });
  });

  test('mcp:SKILL-09 a list that is out of date is mended by skills/get', async () => {
    await withSkills({ ttlMs: 60_000 }, async (manager, server) => {
      await manager.listSkills();
      const newer = { ...FILES, [MANIFEST]: { text: TEXT.replace('Body', 'Newer body') } };
      server.serve({ files: newer, entries: { [MANIFEST]: entryOf(newer) } });
      expect((await manager.loadSkill('s', 'pdf')).text).toContain('Newer body');
      expect(server.asked('skills/get')).toEqual([MANIFEST]);
      // A newer entry that does not agree either helps nothing.
      const [served, promised] = [{ text: `${TEXT}?` }, { text: `${TEXT}!!` }];
      server.serve({
        files: { [MANIFEST]: served },
        entries: { [MANIFEST]: entryOf({ [MANIFEST]: promised }) },
      });
      expect(reasonOf(await caught(manager.loadSkill('s', 'pdf')))).toBe('size');
    });
  });

  test('mcp:SKILL-08 a skill at the limits loads, one above them is refused with the reason', async () => {
    const many = Object.fromEntries(
      Array.from({ length: 511 }, (_, n) => [`${ROOT}/files/${n}`, { text: String(n) }]),
    );
    const files: Record<string, Served> = { [MANIFEST]: { text: TEXT }, ...many };
    const resources = [...listed(files)];
    const large = { uri: `${ROOT}/large`, digest: `sha256:${'0'.repeat(64)}`, size: 16 * 1024 * 1024 };
    const pages = [[{ ...entryOf(files), resources }]];
    await withSkills({ pages, files }, async (manager, server) => {
      const loaded = await manager.loadSkill('s', 'pdf');
      expect(loaded.files).toHaveLength(512);
      expect(await loaded.read('files/510')).toBe('510');
      const above = [
        [...resources, { ...resources[1], uri: `${ROOT}/one-more` }],
        [resources[0], large],
      ];
      for (const refused of above) {
        const entry = { ...entryOf(files), resources: refused };
        server.serve({ pages: [[entry]], files, entries: { [MANIFEST]: entry } });
        await manager.reconnect('s');
        expect(await manager.listSkills()).toHaveLength(1);
        const error = await caught(manager.loadSkill('s', 'pdf'));
        expect([error.code, reasonOf(error)]).toEqual(['SKILL_REFUSED', 'limit']);
        expect(error.message).toMatch(/at most (512|16777216)/);
      }
    });
  });
});

describe('reading files', () => {
  test('mcp:SKILL-10 mcp:SKILL-17 mcp:SKILL-20 what is not listed is not read', async () => {
    const files = { ...FILES, [`${ROOT}/secret.md`]: { text: 'x' }, 'file:///etc/passwd': { text: 'x' } };
    await withSkills({ files }, async (manager, server) => {
      const { read } = await manager.loadSkill('s', 'pdf');
      for (const path of ['secret.md', '../pdf2/SKILL.md', 'file:///etc/passwd', 'https://evil.example/x']) {
        const error = await caught(read(path));
        expect([error.code, reasonOf(error)], path).toEqual(['SKILL_REFUSED', 'unlisted']);
      }
      expect(await read('SKILL.md')).toBe(TEXT);
      expect(server.asked('resources/read')).toEqual([MANIFEST]);
    });
  });

  test('mcp:SKILL-09 a supporting file that was tampered with is not handed out, and nothing of it is kept', async () => {
    const uri = `${ROOT}/references/FORMS.md`;
    await withSkills({ files: { ...FILES, [uri]: { text: 'Fraud' } } }, async (manager, server) => {
      const { read, readBytes } = await manager.loadSkill('s', 'pdf');
      expect(reasonOf(await caught(read('references/FORMS.md')))).toBe('digest');
      expect(reasonOf(await caught(readBytes('references/FORMS.md')))).toBe('digest');
      server.serve({});
      expect(await read('references/FORMS.md')).toBe('Forms');
    });
  });

  test('mcp:SKILL-10 mcp:SKILL-13 a dynamic skill reads below its own directory only', async () => {
    const entry = { ...entryOf(FILES), resources: 'dynamic' };
    await withSkills({ pages: [[entry]] }, async (manager, server) => {
      // Read as a resource it is one, and nothing is loaded by that.
      await manager.readResource('s', MANIFEST);
      const loaded = await manager.loadSkill('s', 'pdf');
      expect(loaded).toMatchObject({ skill: { dynamic: true }, files: [] });
      expect(loaded.skill.fingerprint).toBeUndefined();
      expect(await loaded.read('references/FORMS.md#top')).toBe('Forms');
      expect(reasonOf(await caught(loaded.read('../other/SKILL.md')))).toBe('unlisted');
      expect(await caught(loaded.read('gone.md'))).toMatchObject({ code: 'RPC_ERROR' });
      expect(server.asked('resources/read').at(-1)).toBe(`${ROOT}/gone.md`);
    });
  });

  test('mcp:SKILL-22 a skill whose files lead out of its directory is none', async () => {
    for (const path of ['../other/x', 'a/%2e%2e/%2e%2e/x', 'a%2fb', '/etc/x', 'C:/x']) {
      const entry = entryOf({ ...FILES, [`${ROOT}/${path}`]: { text: 'x' } });
      await withSkills({ pages: [[entry]], entries: { [MANIFEST]: entry } }, async (manager) => {
        expect(await manager.listSkills(), path).toEqual([]);
        expect(reasonOf(await caught(manager.loadSkill('s', MANIFEST))), path).toBe('answer');
      });
    }
  });

  test('mcp:SKILL-20 mcp:SKILL-15 a skill within a skill is a file of it, under the name of its server', async () => {
    const inner = `${ROOT}/inner/SKILL.md`;
    const files = { ...FILES, [inner]: { text: '---\nname: inner\n---\nAct' } };
    await withSkills({ pages: [[entryOf(files)]], files }, async (manager) => {
      const loaded = await manager.loadSkill('s', 'pdf');
      expect(loaded.skill.server).toBe('s');
      expect(await loaded.read('inner/SKILL.md')).toContain('Act');
      expect((await manager.listSkills()).map(({ name }) => name)).toEqual(['pdf']);
      expect(await caught(manager.loadSkill('s', 'inner'))).toMatchObject({ code: 'SKILL_UNKNOWN' });
    });
  });

  test('mcp:SKILL-04 mcp:SKILL-13 mcp:SKILL-18 neither an address nor a field of it makes a skill or a right', async () => {
    const frontmatter = { name: 'pdf', description: 'Fills forms', 'allowed-tools': ['mcp__*'] };
    const text = '---\nname: pdf\ndescription: Fills forms\nallowed-tools: ["mcp__*"]\n---\n';
    const files = { [MANIFEST]: { text } };
    const entry = { ...entryOf(files), frontmatter };
    const servers = { other: faulty() };
    await withManager({ permissions: {}, servers }, async (manager) => {
      const server = new Skilled({ pages: [[]], entries: { [MANIFEST]: entry }, files });
      await manager.addServer('s', server.config);
      await manager.connect();
      await manager.readResource('s', MANIFEST);
      expect(await manager.listSkills()).toEqual([]);
      const { skill } = await manager.loadSkill('s', MANIFEST);
      expect(skill.frontmatter).toMatchObject({ 'allowed-tools': ['mcp__*'] });
      expect(await caught(manager.callTool('mcp__other__echo'))).toMatchObject({
        code: 'PERMISSION_REQUIRED',
      });
    });
  });

  test('long texts and arguments', async () => {
    const long = `${TEXT}${'x'.repeat(200_000)}`;
    const files = { [MANIFEST]: { text: long }, [`${ROOT}/long.md`]: { text: long } };
    await withSkills({ pages: [[entryOf(files)]], files }, async (manager) => {
      const loaded = await manager.loadSkill('s', 'pdf', { timeoutMs: 10_000 });
      expect(loaded.text).toBe(long);
      expect(await loaded.read('long.md')).toBe(long);
      for (const bad of [
        () => manager.loadSkill('', 'x'),
        () => manager.loadSkill('s', ''),
        () => loaded.read(''),
      ])
        expect(await caught(bad())).toMatchObject({ code: 'INVALID_ARGUMENT' });
      expect(await caught(manager.loadSkill('s', 'pdf', { signal: AbortSignal.abort() }))).toMatchObject({
        name: 'AbortError',
      });
    });
  });
});
