/** BEY-06: tools for the APIs of models, names with a way back, schemas repaired. */
import { describe, expect, test } from 'vitest';
import { toModelTools, type JsonObject, type ModelProfile, type Tool } from '..';
import { realServer, withManager } from './harness';

const tool = (name: string, inputSchema: unknown): Tool =>
  ({ name, description: `does ${name}`, inputSchema }) as unknown as Tool;

const schemaOf = (made: JsonObject): JsonObject => {
  const plain = (made.input_schema ?? made.parameters) as JsonObject | undefined;
  return plain ?? ((made.function as JsonObject).parameters as JsonObject);
};

/** The repaired schema of one tool. */
function repaired(inputSchema: unknown, profile: ModelProfile): JsonObject {
  const made = toModelTools([tool('mcp__s__t', inputSchema)], profile);
  expect(made.tools).toHaveLength(1);
  return schemaOf(made.tools[0]);
}

const STRICT: ModelProfile = { maxNameLength: 20, nameCharset: /[a-z0-9_]/, rootUnions: false, refs: false };
const object = (properties: JsonObject, required?: string[]) => ({
  type: 'object',
  properties,
  ...(required && { required }),
});

describe('BEY-06 toModelTools', () => {
  test('the shapes of three APIs', () => {
    const schema = object({ a: { type: 'string' } }, ['a']);
    const one = tool('mcp__s__t', schema);
    expect(toModelTools([one], 'anthropic').tools).toEqual([
      { name: 'mcp__s__t', description: 'does mcp__s__t', input_schema: schema },
    ]);
    expect(toModelTools([one], 'openai').tools).toEqual([
      {
        type: 'function',
        function: { name: 'mcp__s__t', description: 'does mcp__s__t', parameters: schema },
      },
    ]);
    expect(toModelTools([one], 'gemini').tools).toEqual([
      { name: 'mcp__s__t', description: 'does mcp__s__t', parameters: schema },
    ]);
    expect(toModelTools([one], 'anthropic').changes).toEqual([]);
  });

  test('J2 J3 names that do not fit are stable, distinct and lead back', () => {
    const names = ['Ünï.code', 'Ünï code', 'x'.repeat(30), `${'x'.repeat(30)}y`, 'fits', '日本'];
    const tools = names.map((name) => tool(name, object({})));
    const { tools: made, resolve, changes } = toModelTools(tools, STRICT);
    const given = made.map(({ name }) => name as string);
    expect(new Set(given).size).toBe(names.length);
    for (const name of given) expect(name).toMatch(/^[a-z0-9_]{1,20}$/);
    expect(given.map(resolve)).toEqual(names);
    expect(given[4]).toBe('fits');
    expect(resolve('nothing')).toBeUndefined();
    expect(changes.filter(({ kind }) => kind === 'renamed')).toHaveLength(5);
    const backwards = tools.map((_, index) => tools[tools.length - 1 - index]);
    const again = toModelTools(backwards, STRICT);
    expect(given.map((name) => again.resolve(name))).toEqual(names);
  });

  test('a first character that may not stand first', () => {
    const { tools } = toModelTools([tool('9lives', object({}))], 'gemini');
    expect(tools[0].name).toMatch(/^_9lives_[0-9a-f]{8}$/);
  });

  test('J5 references are put in: nested, escaped, anchored, draft-07, recursive', () => {
    const schema = {
      ...object({
        nested: { $ref: '#/$defs/a' },
        escaped: { $ref: '#/$defs/with~1slash~0and%20space', description: 'kept' },
        anchored: { $ref: '#leaf' },
        old: { $ref: '#/definitions/c' },
        tree: { $ref: '#/$defs/tree' },
      }),
      $defs: {
        a: { type: 'array', items: { $ref: '#/$defs/b' } },
        b: { $anchor: 'leaf', type: 'integer' },
        'with/slash~and space': { type: 'boolean' },
        tree: { type: 'object', properties: { child: { $ref: '#/$defs/tree' } } },
      },
      definitions: { c: { type: 'number' } },
    };
    const flat = repaired(schema, STRICT);
    expect(JSON.stringify(flat)).not.toMatch(/\$ref|\$defs|definitions/);
    expect(flat.properties).toMatchObject({
      nested: { type: 'array', items: { type: 'integer' } },
      escaped: { type: 'boolean', description: 'kept' },
      anchored: { type: 'integer' },
      old: { type: 'number' },
      tree: { type: 'object', properties: { child: {} } },
    });
    expect(repaired(schema, 'anthropic')).toEqual(schema);
  });

  test('what cannot be repaired is quarantined, the others stay', () => {
    const bomb = Object.fromEntries(
      Array.from({ length: 30 }, (_, n) => [
        `d${n}`,
        { anyOf: [{ $ref: `#/$defs/d${n + 1}` }, { $ref: `#/$defs/d${n + 1}` }] },
      ]),
    );
    const broken: [string, unknown][] = [
      ['remote', object({ a: { $ref: 'https://example.org/s.json' } })],
      ['dangling', object({ a: { $ref: '#/$defs/none' } })],
      ['text', 'nonsense'],
      ['list', { type: 'array' }],
      ['bomb', { ...object({ a: { $ref: '#/$defs/d0' } }), $defs: { ...bomb, d30: {} } }],
      ['deep', JSON.parse(`${'{"items":'.repeat(200)}{}${'}'.repeat(200)}`)],
    ];
    const tools = [...broken.map(([name, schema]) => tool(name, schema)), tool('good', object({}))];
    const { tools: made, changes } = toModelTools([...tools, tool('good', object({}))], STRICT);
    expect(made.map(({ name }) => name)).toEqual(['good']);
    const quarantined = changes.filter(({ kind }) => kind === 'quarantined');
    expect(quarantined.map(({ tool: name }) => name)).toEqual([...broken.map(([name]) => name), 'good']);
    expect(quarantined[0].detail).toContain('https://example.org/s.json');
  });

  test('a choice at the root that doubles with every reference is quarantined, not followed', () => {
    const twice = (name: string) => ({ anyOf: [{ $ref: `#/$defs/${name}` }, { $ref: `#/$defs/${name}` }] });
    const $defs = Object.fromEntries(Array.from({ length: 50 }, (_, n) => [`d${n}`, twice(`d${n + 1}`)]));
    const bomb = { ...twice('d0'), $defs: { ...$defs, d50: object({}) } };
    const itself = { anyOf: [{ $ref: '#' }, { $ref: '#' }] };
    for (const profile of ['anthropic', 'openai'] as const) {
      const { tools, changes } = toModelTools([tool('bomb', bomb), tool('itself', itself)], profile);
      expect(tools).toEqual([]);
      expect(changes.map(({ kind }) => kind)).toEqual(['quarantined', 'quarantined']);
    }
  });

  test('J7 a choice at the root becomes one object that takes the same arguments', () => {
    const byId = object({ id: { type: 'string' }, deep: { type: 'boolean' } }, ['id', 'deep']);
    const byName = object({ name: { type: 'string' }, deep: { type: 'integer' } }, ['name', 'deep']);
    for (const keyword of ['anyOf', 'oneOf']) {
      expect(repaired({ [keyword]: [byId, byName], description: 'either' }, 'openai')).toEqual({
        type: 'object',
        description: 'either',
        properties: {
          id: { type: 'string' },
          deep: { anyOf: [{ type: 'boolean' }, { type: 'integer' }] },
          name: { type: 'string' },
        },
        required: ['deep'],
      });
    }
    expect(
      repaired({ allOf: [byId, { $ref: '#/$defs/n' }], $defs: { n: byName } }, 'anthropic'),
    ).toMatchObject({
      required: ['id', 'deep', 'name'],
    });
    const kept = { type: 'object', properties: {}, anyOf: [byId, byName] };
    expect(repaired(kept, { ...STRICT, rootUnions: true })).toEqual(kept);
  });

  test('J8 missing and malformed parts are filled', () => {
    expect(repaired({}, 'anthropic')).toEqual({ type: 'object', properties: {} });
    const schema = {
      properties: { type: 'object', list: { type: 'array' }, __proto__: null },
      required: 'all',
    };
    const { changes, tools } = toModelTools([tool('t', schema)], 'anthropic');
    expect(schemaOf(tools[0])).toEqual(object({ type: {}, list: { type: 'array', items: {} } }));
    expect(changes.map(({ kind }) => kind)).toEqual(Array(changes.length).fill('repaired'));
    expect(changes.length).toBeGreaterThanOrEqual(4);
  });

  test('Gemini: nullable instead of null, texts as enum, nothing it does not know', () => {
    expect(
      repaired(
        {
          $schema: 'https://json-schema.org/draft/2020-12/schema',
          ...object({
            a: { type: ['string', 'null'], minLength: 1 },
            b: {
              anyOf: [{ type: 'integer', exclusiveMinimum: 0 }, { type: 'null' }],
              description: 'a number',
            },
            c: { const: 'x' },
            d: { enum: [1, 2], type: 'integer' },
            e: { oneOf: [{ type: 'string' }, { type: 'integer' }] },
            f: { allOf: [{ type: 'string' }, { minLength: 2 }] },
          }),
          required: ['a', 'gone'],
          additionalProperties: false,
        },
        'gemini',
      ),
    ).toEqual({
      type: 'object',
      properties: {
        a: { type: 'string', nullable: true, minLength: 1 },
        b: { type: 'integer', nullable: true, description: 'a number' },
        c: { type: 'string', enum: ['x'] },
        d: { type: 'integer' },
        e: { anyOf: [{ type: 'string' }, { type: 'integer' }] },
        f: { type: 'string', minLength: 2 },
      },
      required: ['a'],
    });
  });

  test('Gemini: null alone is a type, never an enum without values', () => {
    const nothings: JsonObject = {
      a: { enum: [null] },
      b: { const: null },
      c: { type: ['null'], title: 'c' },
    };
    const choices: JsonObject = {
      d: { anyOf: [{ type: 'string' }, { const: null }] },
      e: { anyOf: [{ const: null }, { type: 'null' }] },
      f: { enum: ['x', null] },
      g: { type: 'string', enum: [] },
    };
    expect(repaired(object({ ...nothings, ...choices }), 'gemini').properties).toEqual({
      a: { type: 'null' },
      b: { type: 'null' },
      c: { type: 'null', title: 'c' },
      d: { type: 'string', nullable: true },
      e: { type: 'null' },
      f: { type: 'string', nullable: true, enum: ['x'] },
      g: { type: 'string' },
    });
  });

  test('Gemini: only formats, enums and lists that it takes, each repair told', () => {
    const texts = { u: { type: 'string', format: 'uri' }, d: { type: 'string', format: 'date-time' } };
    const numbers = {
      k: { type: 'integer', format: 'uint32' },
      l: { type: 'integer', format: 'int64' },
      f: { format: 'float' },
    };
    const enums: JsonObject = {
      e: { enum: ['', 'a'] },
      e0: { type: 'string', enum: [''] },
      e1: { enum: ['', null] },
    };
    const pair: JsonObject[] = [{ type: 'string' }, { type: 'number' }];
    const lists: JsonObject = {
      p: { type: 'array', prefixItems: pair, items: false },
      q: { type: 'array', items: pair, additionalItems: { type: 'null' } },
      one: { type: 'array', prefixItems: [{ type: 'string' }, { type: 'string', format: 'uri' }] },
      n: { type: ['array', 'null'] },
      m: { type: ['string', 'array'], items: { type: 'string' }, minItems: 1, maxLength: 3, title: 'm' },
      w: { type: ['string', 'array', 'null'], format: 'uri' },
      a: { allOf: [{ description: 'a' }], type: 'array' },
    };
    const choices: JsonObject = {
      r: { anyOf: [{ required: ['x'] }, object({ y: {} }, ['y'])] },
      t: { type: 'any' },
    };
    const schema = object({ ...texts, ...numbers, ...enums, ...lists, ...choices });
    const either = { anyOf: [{ type: 'string' }, { type: 'number' }] };
    expect(repaired(schema, 'gemini').properties).toEqual({
      u: { type: 'string' },
      d: texts.d,
      k: { type: 'integer' },
      l: numbers.l,
      f: {},
      e: { type: 'string', enum: ['a'] },
      e0: { type: 'string' },
      e1: { type: 'string', nullable: true },
      p: { type: 'array', items: either },
      q: { type: 'array', items: { ...either, nullable: true } },
      one: { type: 'array', items: { type: 'string' } },
      n: { type: 'array', items: {}, nullable: true },
      m: {
        title: 'm',
        anyOf: [
          { type: 'string', maxLength: 3 },
          { type: 'array', items: { type: 'string' }, minItems: 1 },
        ],
      },
      w: { nullable: true, anyOf: [{ type: 'string' }, { type: 'array', items: {} }] },
      a: { type: 'array', description: 'a', items: {} },
      r: { anyOf: [{ required: [] }, object({ y: {} }, ['y'])] },
      t: {},
    });
    const told = toModelTools([tool('t', schema)], 'gemini').changes.map(({ detail }) => detail);
    for (const word of ['uri', 'uint32', 'empty text', 'tuple', 'items of an array', 'several types'])
      expect(told.join('\n')).toContain(word);
  });

  test('J8 lists and types in words that APIs refuse, in every profile', () => {
    const schema = object({
      old: { type: 'array', items: [{ type: 'string' }], additionalItems: { type: 'number' } },
      maybe: { type: ['array', 'null'] },
      any: { type: 'any', title: 'x' },
      some: { type: ['string', 'any'] },
    });
    for (const profile of ['anthropic', 'openai', STRICT] as const)
      expect(repaired(schema, profile).properties).toEqual({
        old: { type: 'array', prefixItems: [{ type: 'string' }], items: { type: 'number' } },
        maybe: { type: ['array', 'null'], items: {} },
        any: { title: 'x' },
        some: { type: ['string'] },
      });
  });

  test('Gemini: what a root that is a choice, or refers to one, requires stays required', () => {
    const byId = object({ id: {}, deep: {} }, ['id']);
    const byName = object({ name: {}, deep: {} }, ['name']);
    const choice = { anyOf: [byId, byName], required: ['deep', 'gone'] };
    for (const schema of [choice, { $ref: '#/$defs/c', $defs: { c: choice } }])
      expect(repaired(schema, 'gemini')).toEqual(object({ id: {}, deep: {}, name: {} }, ['deep']));
    const maybe = { ...object({ a: {} }, ['a']), type: ['object', 'string'] };
    expect(repaired(maybe, 'gemini')).toEqual(object({ a: {} }, ['a']));
  });

  test('J5 a root that only refers is what it refers to, in every profile', () => {
    const person = object({ name: { type: 'string' }, boss: { $ref: '#/$defs/P' } }, ['name']);
    const schema = { $ref: '#/$defs/Q', $defs: { Q: { $ref: '#/$defs/P' }, P: person } };
    for (const profile of ['anthropic', 'openai', 'openai-responses'] as const)
      expect(repaired(schema, profile)).toEqual({ ...person, $defs: schema.$defs });
    for (const profile of ['gemini', STRICT] as const)
      expect(repaired(schema, profile)).toMatchObject({ required: ['name'], properties: { name: {} } });
    const union = { $ref: '#/$defs/U', $defs: { U: { anyOf: [person, object({ id: {} }, ['id'])] } } };
    const { properties } = repaired(union, 'anthropic');
    expect(Object.keys(properties as object)).toEqual(['name', 'boss', 'id']);
    const { tools, changes } = toModelTools([tool('t', { $ref: '#' })], 'anthropic');
    expect([tools.length, changes[0].kind]).toEqual([0, 'quarantined']);
  });

  test('nothing that was given is changed', () => {
    const schema = JSON.parse(
      '{"properties":{"__proto__":{"type":"string"},"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{}}}',
    );
    const before = JSON.stringify(schema);
    const made = repaired(schema, STRICT);
    expect(JSON.stringify(schema)).toBe(before);
    expect(Object.keys(made.properties as object)).toEqual(['__proto__', 'a']);
    expect(({} as { type?: unknown }).type).toBeUndefined();
  });

  test('real servers pass every profile', async () => {
    const servers = { everything: realServer('@modelcontextprotocol/server-everything') };
    await withManager({ servers }, async (manager) => {
      await manager.connect();
      const tools = await manager.listTools();
      for (const profile of ['anthropic', 'openai', 'gemini'] as const) {
        const { tools: made, changes } = toModelTools(tools, profile);
        expect(made).toHaveLength(tools.length);
        expect(changes.filter(({ kind }) => kind !== 'repaired')).toEqual([]);
      }
    });
  });

  test('wrong arguments name their parameter', () => {
    const wrong = (call: () => unknown, parameter: string) =>
      expect(call).toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENT', parameter }));
    wrong(() => toModelTools('x' as never, 'openai'), 'tools');
    wrong(() => toModelTools([], 'mistral' as never), 'profile');
    wrong(() => toModelTools([], { ...STRICT, maxNameLength: 3 } as never), 'profile.maxNameLength');
  });
});
