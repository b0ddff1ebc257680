import { describe, expect, test } from 'vitest';
import {
  classifyTool,
  decidePermission,
  expandEnv,
  partitionCalls,
  sanitizeUnicode,
  version,
  windowsCommand,
  type PermissionRules,
} from '..';
import { thrown } from './harness';

describe('sanitizeUnicode', () => {
  test.each([
    ['zero width', 'a\u200Bb\u200Dc\uFEFF', 'abc'],
    ['bidi controls', 'a\u202Eb\u2066c', 'abc'],
    ['tag block', 'a\u{E0041}\u{E007F}b', 'ab'],
    ['private use', 'a\uE000b', 'ab'],
    ['variation selectors', 'a\uFE0Fb\u{E0100}c', 'abc'],
    ['invisible letters', 'a\u115F\u1160\u3164\uFFA0b', 'ab'],
    ['escape sequences', 'a\u001B[2Jb\u009B\u0007', 'a[2Jb'],
    ['compatibility forms', 'ﬁ½', 'fi1⁄2'],
    ['tab and newline stay', 'a\tb\nc', 'a\tb\nc'],
  ])('SEC-01 B-070 strict: %s', (_, before, after) => {
    expect(sanitizeUnicode(before)).toBe(after);
  });

  test('SEC-01 keys and values, at any depth; the argument stays as it is', () => {
    const input = { 'ke\u200By': ['va\u200Blue', { deeper: 'x\u{E0041}' }], n: 1, b: true, z: null };
    const copy = structuredClone(input);
    expect(sanitizeUnicode(input)).toEqual({ key: ['value', { deeper: 'x' }], n: 1, b: true, z: null });
    expect(input).toEqual(copy);
  });

  test('SEC-01 B-074 the key that was clean already wins, in either order', () => {
    expect(sanitizeUnicode({ role: 'user', 'role\u200B': 'admin' })).toEqual({ role: 'user' });
    expect(sanitizeUnicode({ 'role\u200B': 'admin', role: 'user' })).toEqual({ role: 'user' });
  });

  test('SEC-04 keys of a prototype stay plain keys', () => {
    const cleaned = sanitizeUnicode(
      JSON.parse('{"__proto__":{"isAdmin":true},"constructor":"c"}') as Record<string, unknown>,
    );
    expect(Object.getPrototypeOf(cleaned)).toBe(Object.prototype);
    expect((cleaned as { isAdmin?: boolean }).isAdmin).toBeUndefined();
    expect(Object.keys(cleaned).sort()).toEqual(['__proto__', 'constructor']);
  });

  test('SEC-02 invisible: leaves visible text alone', () => {
    expect(sanitizeUnicode('½ ﬁ ｆｕｌｌ', 'invisible')).toBe('½ ﬁ ｆｕｌｌ');
    expect(sanitizeUnicode('a\u200Bb\u{E0041}\u202E\uE000', 'invisible')).toBe('ab');
    expect(sanitizeUnicode('👩‍👩‍👧 ❤️', 'invisible')).toBe('👩‍👩‍👧 ❤️');
    expect(sanitizeUnicode('می\u200Cخواهم', 'invisible')).toBe('می\u200Cخواهم');
  });

  test('SEC-01 what is clean once stays as it is', () => {
    for (const text of ['e\u0301\u200B\u0301', 'ﷺ\u3164', '\u1160\u200Bﬁ', '👩‍👩‍👧']) {
      const once = sanitizeUnicode(text);
      expect(sanitizeUnicode(once)).toBe(once);
    }
  });
});

describe('classifyTool', () => {
  test.each([
    ['search_files', 'search'],
    ['searchFiles', 'search'],
    ['search-files', 'search'],
    ['read_file', 'read'],
    ['readFile', 'read'],
    ['delete_everything', 'unknown'],
    ['constructor', 'unknown'],
    ['__proto__', 'unknown'],
    ['', 'unknown'],
  ])('TOL-04 %s → %s', (name, kind) => {
    expect(classifyTool(name)).toBe(kind);
  });
});

describe('expandEnv', () => {
  const env = { HOME: '/home/me', EMPTY: '', NESTED: '${HOME}', UNSET: undefined };
  test.each([
    ['${HOME}/x', '/home/me/x', []],
    ['${EMPTY}', '', []],
    ['${EMPTY:-default}', '', []],
    ['${NOPE}', '${NOPE}', ['NOPE']],
    ['${UNSET:-d}', 'd', []],
    ['${NOPE:-}', '', []],
    ['${NOPE:-a b:-c}', 'a b:-c', []],
    ['$${HOME}', '${HOME}', []],
    ['${NESTED}', '${HOME}', []],
    ['$HOME ${', '$HOME ${', []],
    ['${toString} ${__proto__}', '${toString} ${__proto__}', ['toString', '__proto__']],
  ])('CFG-05 %s → %s', (text, value, missing) => {
    expect(expandEnv(text, env)).toEqual({ value, missing });
  });
});

describe('decidePermission', () => {
  const cases: [string | { server: string; tool: string }, PermissionRules, string, string?][] = [
    ['mcp__a__t', {}, 'passthrough'],
    ['mcp__a__t', { allow: ['mcp__a__t'] }, 'allow', 'mcp__a__t'],
    ['mcp__a__t', { allow: ['mcp__a'] }, 'allow', 'mcp__a'],
    ['mcp__a__t', { allow: ['mcp__a__*'] }, 'allow', 'mcp__a__*'],
    ['mcp__a__t', { allow: ['mcp__*'] }, 'allow', 'mcp__*'],
    ['mcp__a__get_x', { allow: ['mcp__a__get_*'] }, 'allow', 'mcp__a__get_*'],
    ['mcp__a__set_x', { allow: ['mcp__a__get_*'] }, 'passthrough'],
    ['mcp__a-b__t', { allow: ['mcp__a'] }, 'passthrough'],
    ['mcp__a-b__t', { allow: ['mcp__a__*'] }, 'passthrough'],
    ['mcp__ab__t', { allow: ['mcp__a*'] }, 'passthrough'],
    ['mcp__a__tt', { allow: ['mcp__a__t'] }, 'passthrough'],
    ['mcp__a__T', { allow: ['mcp__a__t'] }, 'passthrough'],
    ['Write', { allow: ['Write'] }, 'passthrough'],
    ['mcp__a__t', { allow: ['mcp__a__t'], ask: ['mcp__a'] }, 'ask', 'mcp__a'],
    ['mcp__a__t', { allow: ['mcp__a__t'], ask: ['mcp__a__t'], deny: ['mcp__*'] }, 'deny', 'mcp__*'],
    [{ server: 'my__srv', tool: 't' }, { deny: ['mcp__my_srv'] }, 'deny', 'mcp__my_srv'],
    [{ server: 'a', tool: 'b__c' }, { deny: ['mcp__a__b__c'] }, 'deny', 'mcp__a__b__c'],
  ];
  test.each(cases)('POL-07 B-055 I8 %j by %j → %s', (tool, rules, decision, rule) => {
    const decided = decidePermission(tool, rules);
    expect(decided.decision).toBe(decision);
    if (rule !== undefined) expect(decided.rule).toBe(rule);
  });
});

describe('windowsCommand', () => {
  test.each(['npx', 'npm', 'pnpm', 'yarn', 'bunx', 'uvx', 'tool.cmd', 'C:\\x\\run.BAT'])(
    'CFG-06 %s runs through cmd /c',
    (command) => {
      const run = windowsCommand(command, ['-y', 'pkg']);
      expect(run.command.toLowerCase()).toMatch(/cmd(\.exe)?$/);
      expect(run.args.map((arg) => arg.toLowerCase())).toContain('/c');
    },
  );

  test('CFG-06 other commands stay as they are', () => {
    expect(windowsCommand('node', ['a b', '"q"'])).toEqual({ command: 'node', args: ['a b', '"q"'] });
  });

  test.each(['a\nb', 'a\r\nb', 'a\rb'])('CFG-06 B5 a line break is refused: %j', (argument) => {
    expect(thrown(() => windowsCommand('npx', [argument]))).toMatchObject({
      code: 'UNSAFE_ARGUMENT',
      name: 'McpConfigError',
    });
  });

  test('CFG-06 no argument brings a second command: quoted, or refused', () => {
    for (const argument of ['a & calc', 'a" & calc & "', '^& calc', '%PATH% & x', 'a|b', '>out']) {
      let joined: string;
      try {
        joined = windowsCommand('npx', [argument]).args.join(' ');
      } catch (error) {
        expect(error).toMatchObject({ code: 'UNSAFE_ARGUMENT' });
        continue;
      }
      // Outside quotes every operator of cmd must be escaped.
      const outside = joined.replace(/\^./g, '').replace(/"[^"]*"/g, '');
      expect(outside, `${argument} → ${joined}`).not.toMatch(/[&|<>]/);
    }
    expect(windowsCommand('npx', ['plain', 'with space']).args.join(' ')).toContain('with space');
  });
});

describe('partitionCalls', () => {
  test('TOL-07 neighbours that are safe share a group, the others are alone, order kept', () => {
    const calls = ['r1', 'r2', 'w1', 'w2', 'r3'].map((tool) => ({ tool, extra: tool.length }));
    const groups = partitionCalls(calls, (tool) => tool.startsWith('r'));
    expect(groups.map((group) => group.map(({ tool }) => tool))).toEqual([
      ['r1', 'r2'],
      ['w1'],
      ['w2'],
      ['r3'],
    ]);
    expect(groups[0][0]).toBe(calls[0]);
    expect(partitionCalls([], () => true)).toEqual([]);
  });
});

test('USE-01 version is that of the package', () => {
  expect(version).toMatch(/^\d+\.\d+\.\d+/);
});
