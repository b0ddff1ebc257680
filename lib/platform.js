'use strict';
// The name of the platform this process runs on, as it stands in the names of add-ons and platform packages.

const { existsSync, readFileSync } = require('node:fs');

/** `<platform>-<arch>` with the C library (`gnu`, `musl`) on Linux and the ABI (`msvc`) on Windows. */
function platformTriple() {
  const { platform, arch } = process;
  if (platform === 'linux') return `linux-${arch}-${libc()}`;
  if (platform === 'win32') return `win32-${arch}-msvc`;
  return `${platform}-${arch}`;
}

/**
 * The C library of this process, not of the system: a machine may have both. What is mapped tells it at once; where that
 * cannot be read (permission models), Node's report does; runtimes without a report are judged by what is installed.
 */
function libc() {
  return libcOfMaps(mapsOfThisProcess()) ?? libcOfReport(report()) ?? libcOfSystem();
}

function mapsOfThisProcess() {
  try {
    return readFileSync('/proc/self/maps', 'latin1');
  } catch {
    return '';
  }
}

/** @param {string} maps text of `/proc/self/maps` */
function libcOfMaps(maps) {
  if (/\/libc(?:\.so\.6|-2\.\d+\.so)$/m.test(maps)) return 'gnu';
  return /\/(?:ld-musl-[^/]+|libc\.musl-[^/]+|libc\.so)$/m.test(maps) ? 'musl' : undefined;
}

/** The report without its slow part; `undefined` where the runtime has none. */
function report() {
  if (typeof process.report?.getReport !== 'function') return undefined;
  const { excludeNetwork } = process.report;
  process.report.excludeNetwork = true;
  try {
    return process.report.getReport();
  } catch {
    return undefined;
  } finally {
    process.report.excludeNetwork = excludeNetwork;
  }
}

function libcOfReport(found) {
  if (!found?.header) return undefined;
  return found.header.glibcVersionRuntime ? 'gnu' : 'musl';
}

function libcOfSystem() {
  const machine = { x64: 'x86_64', arm64: 'aarch64' }[process.arch] ?? process.arch;
  return existsSync(`/lib/ld-musl-${machine}.so.1`) ? 'musl' : 'gnu';
}

/** Version of glibc that this process runs with, if it does and the runtime tells it. */
function glibcVersion() {
  return process.platform === 'linux' ? report()?.header?.glibcVersionRuntime : undefined;
}

module.exports = { glibcVersion, libcOfMaps, platformTriple };
