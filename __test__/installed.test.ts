// The packed package as a user installs it: in a folder of its own, with the binary in its platform package.
import { execFileSync } from 'node:child_process';
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const root = join(__dirname, '..');
const { platformTriple } = createRequire(__filename)('../lib/platform.js') as { platformTriple(): string };
const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const triple = platformTriple();
const binary = `mcp-switchboard.${triple}.node`;

/** npm and the compiler are slow on a busy machine; nothing here waits for anything else. */
const SLOW_MS = 120_000;

let folder: string;

function npm(...args: string[]) {
  const shell = process.platform === 'win32';
  execFileSync(shell ? 'npm.cmd' : 'npm', args, { cwd: folder, stdio: 'ignore', shell });
}

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'switchboard-installed-'));
  npm('pack', root, '--ignore-scripts');
  writeFileSync(join(folder, 'package.json'), '{ "private": true }');
  npm('install', '--offline', '--no-audit', '--no-fund', `./mcp-switchboard-${version}.tgz`);
  const platform = join(folder, 'node_modules', '@mcp-switchboard', triple);
  mkdirSync(platform, { recursive: true });
  copyFileSync(join(root, 'npm', triple, 'package.json'), join(platform, 'package.json'));
  copyFileSync(join(root, binary), join(platform, binary));
}, SLOW_MS);

afterAll(() => rmSync(folder, { recursive: true, force: true }));

function runFile(name: string, source: string) {
  writeFileSync(join(folder, name), source);
  return execFileSync(process.execPath, [join(folder, name)], { encoding: 'utf8', cwd: folder }).trim();
}

describe('USE-01 USE-05 the installed package', () => {
  it('is the packed one, without a binary of its own', () => {
    const installed = join(folder, 'node_modules', 'mcp-switchboard');
    expect(existsSync(join(installed, binary))).toBe(false);
    expect(existsSync(join(installed, 'index.js'))).toBe(true);
  });

  it('loads with require and with import, and both give the same class', () => {
    const output = runFile(
      'both.mjs',
      `import { createRequire } from 'node:module';
       import all, { McpManager, version } from 'mcp-switchboard';
       const required = createRequire(import.meta.url)('mcp-switchboard');
       console.log(version, McpManager === required.McpManager, all.McpManager === McpManager);`,
    );
    expect(output).toBe(`${version} true true`);
  });

  it('exports by name to import everything that require gives', () => {
    const output = runFile(
      'names.mjs',
      `import { createRequire } from 'node:module';
       import * as imported from 'mcp-switchboard';
       const required = createRequire(import.meta.url)('mcp-switchboard');
       console.log(JSON.stringify(Object.keys(required).filter((name) => !(name in imported))));`,
    );
    expect(output).toBe('[]');
  });

  it('BEY-09 brings the zoo, which runs from where it is installed', () => {
    const output = runFile(
      'zoo.mjs',
      `import { McpManager } from 'mcp-switchboard';
       import { command, start } from 'mcp-switchboard/zoo';
       const page = await start('http-page');
       const servers = { good: command('correct'), page: { type: 'http', url: page.url } };
       const manager = new McpManager({ config: false, servers });
       await manager.connect();
       console.log(JSON.stringify(manager.status().map(({ state, code }) => [state, code])));
       await manager.close();
       await page.close();`,
    );
    expect(JSON.parse(output)).toEqual([
      ['connected', null],
      ['failed', 'MESSAGE_INVALID'],
    ]);
  });

  it('USE-04 brings the command-line tool', () => {
    const [command, options] =
      process.platform === 'win32'
        ? [`${join('node_modules', '.bin', 'mcp-switchboard.cmd')}`, { shell: true }]
        : [join('node_modules', '.bin', 'mcp-switchboard'), {}];
    const output = execFileSync(command, ['--version'], { encoding: 'utf8', cwd: folder, ...options });
    expect(output.trim()).toBe(version);
  });

  it(
    'has types for both module systems, checked without skipLibCheck',
    () => {
      cpSync(join(root, 'node_modules', '@types', 'node'), join(folder, 'node_modules', '@types', 'node'), {
        recursive: true,
      });
      cpSync(join(root, 'node_modules', 'undici-types'), join(folder, 'node_modules', 'undici-types'), {
        recursive: true,
      });
      const use = `const manager = new McpManager({ config: false });\nexport const closed: Promise<void> = manager.close();\n`;
      writeFileSync(join(folder, 'esm.mts'), `import { McpManager } from 'mcp-switchboard';\n${use}`);
      writeFileSync(join(folder, 'cjs.cts'), `import { McpManager } from 'mcp-switchboard';\n${use}`);
      const compiler = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
      const options = [
        '--strict',
        '--noEmit',
        '--module',
        'node16',
        '--target',
        'es2023',
        '--lib',
        'es2023,esnext.disposable',
      ];
      const args = [compiler, ...options, 'esm.mts', 'cjs.cts'];
      expect(execFileSync(process.execPath, args, { cwd: folder, encoding: 'utf8' })).toBe('');
    },
    SLOW_MS,
  );
});
