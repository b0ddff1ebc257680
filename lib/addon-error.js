'use strict';
// Why no native add-on could be loaded: one sentence for the cause, then what was looked for, what was found and how
// to mend it. Loaded only when that happened. `look` gathers facts, `diagnose` decides.

const { existsSync, readdirSync, readFileSync } = require('node:fs');
const { dirname, join } = require('node:path');

const manifest = require('../package.json');
const { compareVersions, describeBinary, fileOfPackage } = require('./addon-file.js');
const { glibcVersion } = require('./platform.js');

const SCOPE = '@mcp-switchboard';
const LOCK_FILES = ['package-lock.json', 'npm-shrinkwrap.json', 'pnpm-lock.yaml', 'yarn.lock', 'bun.lock'];
const OWN_BUILD = 'or build from source and set MCP_SWITCHBOARD_BINARY to the file';
const REINSTALL = 'delete node_modules and install again';

/**
 * @param {object} search
 * @param {{ place: string, file?: string, error?: Error, version?: string }[]} search.attempts in order; `version` is
 *   that of an add-on which loaded but does not fit
 * @param {string} search.triple of this process
 * @param {string | undefined} search.override value of MCP_SWITCHBOARD_BINARY
 * @param {string} search.folder where binding.js lies
 * @returns {Error} with `code` 'ADDON_UNAVAILABLE' and `reason`, one of those in docs/troubleshooting.md
 */
function addonError(search) {
  const facts = look(search);
  const { reason, sentence, fix } = diagnose(facts);
  const lines = [
    `mcp-switchboard cannot load its native add-on: ${sentence}.`,
    ...facts.attempts.map(({ place, outcome }) => `  looked for: ${place}: ${outcome}`),
    `  found: ${facts.installed.join(', ') || 'no platform packages'}; this process is ${facts.triple}${
      facts.glibc ? ` with glibc ${facts.glibc}` : ''
    }, Node ${process.versions.node}`,
    `  to fix: ${fix}.`,
  ];
  const { error } = blamed(facts.attempts);
  return Object.assign(new Error(lines.join('\n'), error && { cause: error }), {
    code: 'ADDON_UNAVAILABLE',
    reason,
  });
}

function look({ attempts, triple, override, folder }) {
  const name = `${SCOPE}/${triple}`;
  const looked = attempts.map((attempt) => {
    const file = attempt.file ?? fileOfPackage(folder, triple);
    const binary = file && existsSync(file) ? readAddon(file) : undefined;
    return { ...attempt, file, binary, outcome: outcomeOf({ ...attempt, file, binary }) };
  });
  return {
    attempts: looked,
    triple,
    override,
    version: manifest.version,
    published: Object.keys(manifest.optionalDependencies).map((each) => each.slice(SCOPE.length + 1)),
    installed: installedPackages(folder),
    lock: override ? undefined : lockFile(folder, name),
    checkout: existsSync(join(folder, 'Cargo.toml')),
    glibc: glibcVersion(),
  };
}

function outcomeOf({ place, file, binary, error, version }) {
  if (version !== undefined) return `is version ${version}`;
  if (file === undefined) return 'not installed';
  if (binary === undefined) return file === place ? 'not found' : `${file} not found`;
  return firstLine(error);
}

function firstLine(error) {
  return String(error?.message ?? error).split('\n', 1)[0];
}

function readAddon(file) {
  try {
    const bytes = readFileSync(file);
    return { size: bytes.length, ...describeBinary(bytes) };
  } catch (error) {
    return { unreadable: firstLine(error), complete: true };
  }
}

/** The folder itself and those above it. */
function* upwards(folder) {
  for (let at = folder; ; at = dirname(at)) {
    yield at;
    if (at === dirname(at)) return;
  }
}

/** Every platform package in reach; one of another platform is the trace of a foreign install. */
function installedPackages(folder) {
  for (const at of upwards(folder)) {
    const scope = join(at, 'node_modules', SCOPE);
    if (!existsSync(scope)) continue;
    const names = readdirSync(scope).filter((name) => existsSync(join(scope, name, 'package.json')));
    if (names.length > 0) return names;
  }
  return [];
}

/** The lock file that this install came from, and whether it has the platform package. */
function lockFile(folder, name) {
  for (const at of upwards(dirname(folder))) {
    for (const each of LOCK_FILES) {
      const file = join(at, each);
      if (!existsSync(file)) continue;
      const text = readFileSync(file, 'utf8');
      // The names alone prove nothing: each lock file also repeats what this package wishes for.
      if (text.includes('mcp-switchboard'))
        return { file, complete: text.includes(`node_modules/${name}"`) || text.includes(`${name}@`) };
    }
  }
  return undefined;
}

/** The attempt that came closest: it says why there is nothing. */
function blamed(attempts) {
  return (
    attempts.find(({ version }) => version !== undefined) ??
    attempts.find(({ binary }) => binary !== undefined) ??
    attempts.at(-1)
  );
}

/** The cause, in one sentence, and what to do. */
function diagnose(facts) {
  const { triple, override, checkout, attempts } = facts;
  const attempt = blamed(attempts);
  const judge = attempt.version !== undefined ? otherVersion : attempt.binary ? unusable : absent;
  const found = judge(facts, attempt);
  if (override)
    return {
      ...found,
      fix: 'point MCP_SWITCHBOARD_BINARY at an add-on built for this platform, or unset it',
    };
  if (checkout && !facts.installed.includes(triple))
    return { ...found, fix: 'this is a source checkout: run `npm run build` (needs Rust)' };
  return found;
}

function otherVersion({ version: wanted }, { place, version }) {
  return {
    reason: 'version-mismatch',
    sentence: `${place} is version ${version}, but the JavaScript around it is version ${wanted}`,
    fix: `install both in one step: ${REINSTALL}`,
  };
}

/** A file is there and does not load. */
function unusable({ triple, glibc }, { file, binary, error }) {
  const [platform, arch, libc] = triple.split('-');
  if (binary.unreadable)
    return {
      reason: 'refused',
      sentence: `${file} cannot be read (${binary.unreadable})`,
      fix: 'let the user of this process read it',
    };
  if (!binary.complete) {
    const seen = binary.format ? `ends too early (${binary.size} bytes)` : 'is no shared library';
    return {
      reason: 'corrupt',
      sentence: `${file} is damaged: it ${seen}`,
      fix: `${REINSTALL} (\`npm cache verify\` if it comes back damaged)`,
    };
  }
  if (binary.platform !== platform || (binary.arch ?? 'another machine') !== arch)
    return {
      reason: 'wrong-platform',
      sentence: `${file} is built for ${binary.platform}-${binary.arch ?? 'another machine'}, but this process is ${platform}-${arch}`,
      fix: `${REINSTALL} with the Node that runs the program`,
    };
  if (platform === 'linux' && binary.libc && binary.libc !== libc)
    return {
      reason: 'wrong-libc',
      sentence: `${file} is built for ${libcName(binary.libc)}, but this process runs on ${libcName(libc)}`,
      fix: `${REINSTALL} inside the image or system that runs the program`,
    };
  const refused = /version `GLIBC_([\d.]+)' not found/.exec(String(error?.message))?.[1];
  const needed = refused ?? binary.glibc;
  const tooOld = refused || (glibc && needed && compareVersions(needed, glibc) > 0);
  if (libc === 'gnu' && tooOld)
    return {
      reason: 'old-glibc',
      sentence: `${file} needs glibc ${needed}, but this system has ${glibc ?? 'an older one'}`,
      fix: `use a newer system, or an image with musl (Alpine), ${OWN_BUILD}`,
    };
  if (
    /operation not permitted|permission denied|code signature|not valid for use|EACCES|EPERM/i.test(
      firstLine(error),
    )
  )
    return {
      reason: 'refused',
      sentence: `the system refused to load ${file} (${firstLine(error)})`,
      fix: 'keep it on a file system that allows programs (no `noexec`, no quarantine, outside an asar archive)',
    };
  return {
    reason: 'load-failed',
    sentence: `${file} does not load (${firstLine(error)})`,
    fix: `${REINSTALL}, ${OWN_BUILD}`,
  };
}

function libcName(libc) {
  return libc === 'gnu' ? 'glibc' : libc;
}

/** No file is there. */
function absent(facts, { file }) {
  const { triple, override, published, installed, lock, checkout } = facts;
  const name = `${SCOPE}/${triple}`;
  const [platform, arch, libc] = triple.split('-');
  if (override)
    return {
      reason: 'missing',
      sentence: `the file that MCP_SWITCHBOARD_BINARY names, ${file}, does not exist`,
    };
  if (!published.includes(triple))
    return {
      reason: 'unsupported-platform',
      sentence: `no add-on is published for ${triple}`,
      fix: `use one of ${published.join(', ')}, ${OWN_BUILD}`,
    };
  if (checkout) return { reason: 'not-built', sentence: 'it has not been built yet' };
  if (file)
    return {
      reason: 'missing',
      sentence: `${name} is installed, but its file ${file} was deleted`,
      fix: `${REINSTALL}; look for a virus scanner, bundler or clean-up that removes .node files`,
    };
  const sibling = installed.find((each) => each.startsWith(`${platform}-${arch}-`));
  if (sibling)
    return {
      reason: 'wrong-libc',
      sentence: `node_modules holds the add-on for ${libcName(sibling.split('-')[2])} (${sibling}), but this process runs on ${libcName(libc)}`,
      fix: `${REINSTALL} inside the image or system that runs the program`,
    };
  if (installed.length > 0)
    return {
      reason: 'foreign-modules',
      sentence: `node_modules was installed for another platform: it holds ${installed.join(', ')}, not ${triple}`,
      fix: `${REINSTALL} here, with the Node that runs the program${lock?.complete === false ? `, and delete ${lock.file} first` : ''}`,
    };
  if (lock?.complete === false)
    return {
      reason: 'foreign-lock-file',
      sentence: `${lock.file} was made on another platform: it does not have ${name}`,
      fix: 'delete it and node_modules, then install again (npm/cli#4828)',
    };
  return {
    reason: 'omitted',
    sentence: `${name} was left out of the install, as with \`--omit=optional\` or \`--no-optional\``,
    fix: `install again with optional dependencies (\`npm install --include=optional\`), ${OWN_BUILD}`,
  };
}

module.exports = { addonError, diagnose };
