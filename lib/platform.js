'use strict';
// The name of the platform this process runs on, as it stands in the names of add-ons and platform packages.

const { existsSync } = require('node:fs');

/** `<platform>-<arch>` with the C library (`gnu`, `musl`) on Linux and the ABI (`msvc`) on Windows. */
function platformTriple() {
  const { platform, arch } = process;
  if (platform === 'linux') return `linux-${arch}-${isMusl() ? 'musl' : 'gnu'}`;
  if (platform === 'win32') return `win32-${arch}-msvc`;
  return `${platform}-${arch}`;
}

/** The report tells the truth about this process but costs milliseconds: asked only where musl is installed at all. */
function isMusl() {
  const machine = { x64: 'x86_64', arm64: 'aarch64' }[process.arch] ?? process.arch;
  if (!existsSync(`/lib/ld-musl-${machine}.so.1`)) return false;
  if (typeof process.report?.getReport !== 'function') return true;
  process.report.excludeNetwork = true;
  return !process.report.getReport().header.glibcVersionRuntime;
}

module.exports = { platformTriple };
