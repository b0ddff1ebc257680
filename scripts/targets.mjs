// The platforms that a binary is published for: the one table that manifests, builds, checks and tests go by.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

import { root } from './project.mjs';

const { compareVersions, describeBinary } = createRequire(import.meta.url)('../lib/addon-file.js');

export const SCOPE = '@mcp-switchboard';
/** Newest glibc whose symbols a published binary may need (RHEL 8, Debian 10); ours are built against an older one. */
export const GLIBC_CEILING = '2.28';
/** What the GNU targets are built against. */
export const GLIBC_BUILT = '2.17';

/**
 * `triple` names packages and files; `rust` is the target of the compiler; `build` the way to it from any machine:
 * 'zig' everywhere, 'host' only on its own system.
 */
export const TARGETS = [
  row('darwin-arm64', 'aarch64-apple-darwin', 'host', 'macOS on Apple silicon'),
  row('darwin-x64', 'x86_64-apple-darwin', 'host', 'macOS on Intel'),
  row('linux-arm64-gnu', 'aarch64-unknown-linux-gnu', 'zig', 'Linux on 64-bit ARM with the GNU C library'),
  row('linux-arm64-musl', 'aarch64-unknown-linux-musl', 'zig', 'Linux on 64-bit ARM with musl'),
  row('linux-x64-gnu', 'x86_64-unknown-linux-gnu', 'zig', 'Linux on x86-64 with the GNU C library'),
  row('linux-x64-musl', 'x86_64-unknown-linux-musl', 'zig', 'Linux on x86-64 with musl'),
  row('win32-arm64-msvc', 'aarch64-pc-windows-msvc', 'host', 'Windows on 64-bit ARM'),
  row('win32-x64-msvc', 'x86_64-pc-windows-msvc', 'host', 'Windows on x86-64'),
];

function row(triple, rust, build, title) {
  const [os, cpu, abi] = triple.split('-');
  const libc = { gnu: 'glibc', musl: 'musl' }[abi];
  const main = `mcp-switchboard.${triple}.node`;
  return { triple, rust, build, title, os, cpu, libc, main, name: `${SCOPE}/${triple}` };
}

/** The folder of a target's package. */
export function packageFolder({ triple }) {
  return join(root, 'npm', triple);
}

/** The version of everything here; package.json is where it stands first. */
export function currentVersion() {
  return JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).version;
}

/** Why a binary must not be published as that of a target, or nothing. */
export function unfit(target, bytes) {
  const facts = describeBinary(bytes);
  if (!facts.complete) return 'is damaged';
  if (facts.platform !== target.os || facts.arch !== target.cpu)
    return `is built for ${facts.platform}-${facts.arch}`;
  if (target.os !== 'linux') return undefined;
  if (facts.libc !== { glibc: 'gnu', musl: 'musl' }[target.libc]) return `is linked with ${facts.libc}`;
  if (facts.glibc && compareVersions(facts.glibc, GLIBC_CEILING) > 0)
    return `needs glibc ${facts.glibc}, but ${GLIBC_CEILING} is the promise`;
  return undefined;
}
