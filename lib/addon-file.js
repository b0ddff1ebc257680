'use strict';
// The file of a native add-on: where it lies, whether all of it is there, and what it was built for. Knows ELF, Mach-O
// and PE; runs nothing.

const { closeSync, fstatSync, openSync, readSync } = require('node:fs');
const { createRequire } = require('node:module');
const { dirname, join } = require('node:path');

const ELF_MACHINES = { 3: 'ia32', 40: 'arm', 62: 'x64', 183: 'arm64', 243: 'riscv64', 258: 'loong64' };
const PE_MACHINES = { 0x14c: 'ia32', 0x8664: 'x64', 0xaa64: 'arm64' };
const MACHO_MACHINES = { 0x01000007: 'x64', 0x0100000c: 'arm64' };

const LOAD = 1;
const DYNAMIC = 2;
const NEEDED = 1;
const STRING_TABLE = 5;
const VERSIONS_NEEDED = 0x6ffffffe;
const VERSIONS_NEEDED_COUNT = 0x6fffffff;
/** Far above what any library has; keeps a damaged one from being read for ever. */
const MOST_ENTRIES = 4_096;

/** More than the head of any library, its table of segments included. */
const HEAD_BYTES = 4_096;

/**
 * Where the add-on of an installed platform package should be, whether it is there or not; `undefined` without a package.
 * Not the `require` of this module, so that no bundler tries to follow it.
 */
function fileOfPackage(folder, triple) {
  try {
    const manifest = createRequire(join(folder, 'binding.js')).resolve(
      `@mcp-switchboard/${triple}/package.json`,
    );
    return join(dirname(manifest), `mcp-switchboard.${triple}.node`);
  } catch {
    return undefined;
  }
}

/** Throws when an ELF file is cut short: Linux would map it all the same, and then kill the process with SIGBUS. */
function refuseCut(file) {
  const opened = openSync(file, 'r');
  try {
    const { size } = fstatSync(opened);
    const head = Buffer.alloc(Math.min(size, HEAD_BYTES));
    readSync(opened, head, 0, head.length, 0);
    if (isElf(head) && endOfElf(head) > size) throw new Error(`${file}: file too short`);
  } catch (error) {
    if (error instanceof RangeError) throw new Error(`${file}: file too short`, { cause: error });
    throw error;
  } finally {
    closeSync(opened);
  }
}

/**
 * @typedef {object} BinaryFacts
 * @property {'elf' | 'macho' | 'pe' | undefined} format absent: no shared library of any system
 * @property {string} [platform] as in `process.platform`
 * @property {string} [arch] as in `process.arch`
 * @property {'gnu' | 'musl'} [libc] on Linux, if the library says it
 * @property {string} [glibc] the newest symbol version of glibc that it needs, as `2.17`
 * @property {string[]} [needs] libraries that it loads (ELF)
 * @property {boolean} complete whether everything that the head announces is there
 */

/**
 * @param {Buffer} bytes the whole file
 * @returns {BinaryFacts}
 */
function describeBinary(bytes) {
  try {
    if (isElf(bytes)) return elf(bytes);
    if (bytes.length >= 4 && bytes.readUInt32LE(0) === 0xfeedfacf) return machO(bytes);
    if (bytes.length >= 2 && bytes.toString('latin1', 0, 2) === 'MZ') return pe(bytes);
  } catch (error) {
    // Something lies beyond the end of the file.
    if (!(error instanceof RangeError)) throw error;
    return { ...startOf(bytes), complete: false };
  }
  return { format: undefined, complete: false };
}

/** What can be said when the rest is missing. */
function startOf(bytes) {
  if (bytes[0] === 0x7f) {
    const machine = bytes.length >= 20 ? ELF_MACHINES[bytes.readUInt16LE(18)] : undefined;
    return { format: 'elf', platform: 'linux', arch: machine };
  }
  return bytes[0] === 0x4d ? { format: 'pe', platform: 'win32' } : { format: 'macho', platform: 'darwin' };
}

function isElf(bytes) {
  return bytes.length >= 4 && bytes.readUInt32BE(0) === 0x7f454c46;
}

/** 64-bit little-endian, which all our targets are. */
function isOurKindOfElf(bytes) {
  return bytes.readUInt8(4) === 2 && bytes.readUInt8(5) === 1;
}

function segmentsOf(bytes) {
  return table(bytes.readUInt16LE(56), (n) => {
    const at = offset(bytes, 32) + n * bytes.readUInt16LE(54);
    const [start, address, size] = [8, 16, 32].map((field) => offset(bytes, at + field));
    return { type: bytes.readUInt32LE(at), start, address, size };
  });
}

/** How long the file has to be for everything that its head announces. */
function endOfElf(bytes) {
  if (!isOurKindOfElf(bytes)) return 0;
  const sections = offset(bytes, 40) + bytes.readUInt16LE(58) * bytes.readUInt16LE(60);
  return Math.max(sections, ...segmentsOf(bytes).map(({ start, size }) => start + size));
}

function elf(bytes) {
  const facts = { format: 'elf', platform: 'linux', arch: ELF_MACHINES[bytes.readUInt16LE(18)] };
  if (!isOurKindOfElf(bytes)) return { ...facts, complete: true };
  if (endOfElf(bytes) > bytes.length) return { ...facts, complete: false };
  const { needs, versions } = dynamicFacts(bytes, segmentsOf(bytes));
  return { ...facts, needs, libc: libcOf(needs), glibc: newest(versions), complete: true };
}

function dynamicFacts(bytes, segments) {
  const dynamic = segments.find(({ type }) => type === DYNAMIC);
  if (!dynamic) return { needs: [], versions: [] };
  const entries = table(Math.floor(dynamic.size / 16), (n) => {
    const at = dynamic.start + n * 16;
    return [offset(bytes, at), offset(bytes, at + 8)];
  });
  const value = (tag) => entries.find(([found]) => found === tag)?.[1];
  const position = (address) => {
    const within = ({ type, address: from, size }) =>
      type === LOAD && address >= from && address < from + size;
    const segment = segments.find(within);
    if (!segment) throw new RangeError('an address outside the file');
    return address - segment.address + segment.start;
  };
  const strings = position(value(STRING_TABLE) ?? -1);
  const text = (at) => bytes.toString('latin1', strings + at, bytes.indexOf(0, strings + at));
  const needs = entries.filter(([tag]) => tag === NEEDED).map(([, at]) => text(at));
  const versions = [];
  const count = Math.min(value(VERSIONS_NEEDED_COUNT) ?? 0, MOST_ENTRIES);
  let library = count > 0 ? position(value(VERSIONS_NEEDED) ?? -1) : 0;
  for (let n = 0; n < count; n += 1) {
    let version = library + bytes.readUInt32LE(library + 8);
    for (let left = bytes.readUInt16LE(library + 2); left > 0; left -= 1) {
      versions.push(text(bytes.readUInt32LE(version + 8)));
      version += bytes.readUInt32LE(version + 12);
    }
    library += bytes.readUInt32LE(library + 12);
  }
  return { needs, versions };
}

function libcOf(needs) {
  if (needs.includes('libc.so.6')) return 'gnu';
  return needs.some((name) => name === 'libc.so' || name.startsWith('libc.musl-')) ? 'musl' : undefined;
}

/** The newest of `GLIBC_2.17`, `GLIBC_2.3.4`, …, without the prefix. */
function newest(versions) {
  const numbers = versions.flatMap((version) => /^GLIBC_([\d.]+)$/.exec(version)?.[1] ?? []);
  return numbers.sort(compareVersions).at(-1);
}

/** Negative when `left` is the older of two dotted versions. */
function compareVersions(left, right) {
  const [ours, theirs] = [left, right].map((version) => version.split('.').map(Number));
  for (let n = 0; n < Math.max(ours.length, theirs.length); n += 1) {
    const difference = (ours[n] ?? 0) - (theirs[n] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

function machO(bytes) {
  const facts = { format: 'macho', platform: 'darwin', arch: MACHO_MACHINES[bytes.readUInt32LE(4)] };
  let at = 32;
  let end = at + bytes.readUInt32LE(20);
  table(bytes.readUInt32LE(16), () => {
    if (bytes.readUInt32LE(at) === 0x19) end = Math.max(end, offset(bytes, at + 40) + offset(bytes, at + 48));
    at += bytes.readUInt32LE(at + 4);
  });
  return { ...facts, complete: end <= bytes.length };
}

function pe(bytes) {
  const head = bytes.readUInt32LE(0x3c);
  if (bytes.readUInt32LE(head) !== 0x4550) return { format: undefined, complete: false };
  const facts = { format: 'pe', platform: 'win32', arch: PE_MACHINES[bytes.readUInt16LE(head + 4)] };
  const first = head + 24 + bytes.readUInt16LE(head + 20);
  const ends = table(bytes.readUInt16LE(head + 6), (n) => {
    const at = first + n * 40;
    return bytes.readUInt32LE(at + 16) + bytes.readUInt32LE(at + 20);
  });
  return { ...facts, complete: Math.max(0, ...ends) <= bytes.length };
}

function table(count, entry) {
  return Array.from({ length: Math.min(count, MOST_ENTRIES) }, (_, n) => entry(n));
}

/** A 64-bit number as one of JavaScript: positions in a file fit. */
function offset(bytes, at) {
  return Number(bytes.readBigUInt64LE(at));
}

module.exports = { compareVersions, describeBinary, fileOfPackage, refuseCut };
