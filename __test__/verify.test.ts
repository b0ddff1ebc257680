// The `verify` scripts: that a failure is one, that nothing hangs or stays behind, and that the texts they read are there.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { eventually, isAlive, root, temporaryDirectory } from './harness';

const load = (name: string) => import(`../scripts/verify/${name}.mjs`);

/** What a report of some steps says, and its exit code. */
async function reported(use: (report: any) => Promise<void>) {
  const { Report } = await load('report');
  const said: string[] = [];
  const log = vi.spyOn(console, 'log').mockImplementation((line) => void said.push(String(line)));
  const error = vi.spyOn(console, 'error').mockImplementation(() => {});
  try {
    const report = new Report('thing');
    await use(report);
    return { code: report.end() as number, said: said.join('\n') };
  } finally {
    log.mockRestore();
    error.mockRestore();
  }
}

describe('the report of a verify script', () => {
  it('is good when every step is', async () => {
    const { code, said } = await reported(async (report) => {
      expect(await report.step('row', 'column', async () => 7)).toBe(7);
    });
    expect(code).toBe(0);
    expect(said).toContain('1 ok, 0 failed, 0 left out');
  });

  it('fails when one step does, when nothing was done, and not for what was left out', async () => {
    const bad = () => Promise.reject(new Error('the reason\nand more'));
    const failed = await reported(async (report) => {
      await report.step('a', 'x', async () => true);
      await report.step('b', 'x', bad);
    });
    expect(failed.code).toBe(1);
    expect(failed.said).toMatch(/^FAILED: b, x: the reason$/m);
    expect((await reported(async (report) => report.skip('a', 'x', 'not here'))).code).toBe(1);
    const partly = await reported(async (report) => {
      await report.step('a', 'x', async () => true);
      report.skip('b', 'x', 'not here');
    });
    expect(partly.code).toBe(0);
    expect(partly.said).toContain('left out: b, x: not here');
  });
});

describe('programs of the verify scripts', () => {
  it('end at their deadline, with what they started', async () => {
    const { runProgram } = await load('programs');
    const source = `const { pid } = require('node:child_process').spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)']);
      console.log(pid); setInterval(() => {}, 1000);`;
    const ended = await runProgram([process.execPath, '-e', source], { cwd: root, deadlineMs: 2000 });
    expect(ended).toMatchObject({ late: true, code: null, signal: 'SIGKILL' });
    await eventually(() => !isAlive(Number(ended.stdout)));
  });

  it('leave nothing behind when the script itself ends in the middle', async () => {
    const file = join(root, 'scripts', 'verify', 'programs.mjs');
    const source = `
      import { existsSync } from 'node:fs';
      import { startProgram, temporaryFolder } from ${JSON.stringify(file)};
      const folder = temporaryFolder('test');
      const { child } = startProgram([process.execPath, '-e', 'setInterval(() => {}, 1000)'], { cwd: folder });
      console.log(JSON.stringify({ folder, pid: child.pid, there: existsSync(folder) }));
      process.exit(3);`;
    const { status, stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', source], {
      cwd: temporaryDirectory(),
      encoding: 'utf8',
    });
    const { folder, pid, there } = JSON.parse(stdout);
    expect([status, there]).toEqual([3, true]);
    expect(() => readFileSync(folder)).toThrow(/ENOENT/);
    await eventually(() => !isAlive(pid));
  });
});

describe('what the verify scripts read', () => {
  it("the README's example, in every form", async () => {
    const readme = await load('readme');
    for (const form of ['asModule', 'asCommonJs', 'asFunction', 'asTypeScript', 'asCommonJsTypeScript'])
      expect(readme[form]()).toContain("await manager.callTool('mcp__files__read_text_file'");
  });

  it('the settings of bundlers, in docs/embedding.md', () => {
    const text = readFileSync(join(root, 'docs', 'embedding.md'), 'utf8');
    for (const name of ['esbuild.mjs', 'esbuild-all.mjs', 'vite.config.mjs', 'webpack.config.mjs'])
      expect(text).toContain(`\`\`\`js\n// ${name}\n`);
  });
});
