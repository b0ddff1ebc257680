// Files out of Debian packages, unpacked into .setup/cross without rights of root. apt works with lists and settings of its
// own there, so the system that it runs on may be any that has apt and Debian's keys.

import { existsSync, mkdirSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { crossFolder, Missing, obtain } from './cross-tools.mjs';

const KEYRING = '/usr/share/keyrings/debian-archive-keyring.gpg';
const ARCHES = { x64: 'amd64', arm64: 'arm64' };
/** The stable release when this was written: its musl is the first that can run the Node of PyPI. */
const STABLE = 'debian trixie';

/**
 * Unpacks packages (without what they depend on) for a processor into a folder, whose path is returned.
 * @param {string} release archive and suite
 */
export async function debianFiles(cpu, packages, release = STABLE) {
  const arch = ARCHES[cpu];
  const base = join(crossFolder, `${release.replace(' ', '-')}-${arch}`);
  const files = join(base, `root-${packages.join('+')}`);
  const stamp = join(files, 'complete');
  if (existsSync(stamp)) return files;
  if (!existsSync(KEYRING)) throw new Missing(`no apt with Debian's keys here (${KEYRING})`);
  for (const folder of ['state/lists/partial', 'cache/archives/partial', 'packages'])
    mkdirSync(join(base, folder), { recursive: true });
  mkdirSync(files, { recursive: true });
  const source = `deb [signed-by=${KEYRING}] http://deb.debian.org/${release} main\n`;
  writeFileSync(join(base, 'sources.list'), source);
  writeFileSync(join(base, 'status'), '');
  const settings = {
    'APT::Architecture': arch,
    'APT::Architectures': arch,
    'APT::Sandbox::User': 'root',
    'Acquire::Languages': 'none',
    'Dir::Cache': join(base, 'cache'),
    'Dir::Etc::SourceList': join(base, 'sources.list'),
    'Dir::Etc::SourceParts': '-',
    'Dir::State': join(base, 'state'),
    'Dir::State::status': join(base, 'status'),
  };
  const options = Object.entries(settings).flatMap(([name, value]) => ['-o', `${name}=${value}`]);
  console.error(`setup: unpacking ${packages.join(', ')} (${release}, ${arch})`);
  await obtain('Debian', 'apt-get', [...options, '-qq', 'update']);
  const archives = join(base, 'packages');
  await obtain('Debian', 'apt-get', [...options, '-qq', 'download', ...packages], {
    output: 'stderr',
    cwd: archives,
  });
  for (const name of readdirSync(archives).filter((each) => each.endsWith('.deb'))) {
    await obtain('Debian', 'dpkg', ['-x', join(archives, name), files]);
    rmSync(join(archives, name));
  }
  // Programs ask for /lib/ld-linux…, which a whole system would lead to /usr/lib.
  if (!existsSync(join(files, 'lib'))) symlinkSync('usr/lib', join(files, 'lib'));
  writeFileSync(stamp, '');
  return files;
}
