// THIRD-PARTY-LICENSES.txt: the licences of everything that is linked into the published binaries, from what cargo says
// and from the files that the crates themselves carry.
//
//   node scripts/licenses.mjs [--check]     --check writes nothing and fails when the file is out of date

import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

import { mustRun, readIfThere, root, runScript, Trouble } from './project.mjs';
import { TARGETS } from './targets.mjs';
import { checkRust } from './toolchain.mjs';

export const FILE = 'THIRD-PARTY-LICENSES.txt';
/** Licences that we accept, the ones we rather choose first, each with words that its text has. */
const ACCEPTED = new Map([
  ['MIT', /Permission is hereby granted, free of charge/],
  ['MIT-0', /MIT No Attribution/],
  ['ISC', /Permission to use, copy, modify, and\/or distribute this software/],
  ['BSD-2-Clause', /Redistributions in binary form must reproduce/],
  ['BSD-3-Clause', /Neither the name/],
  ['Zlib', /This software is provided 'as-is'/],
  ['Unicode-3.0', /UNICODE LICENSE V3/],
  ['Apache-2.0', /Apache License\s+Version 2\.0/],
  ['CDLA-Permissive-2.0', /Community Data License Agreement/],
]);
const LICENSE_FILE = /^(licen[cs]e|copying|copyright|notice)/i;

/** The licences under which we take a crate: of alternatives one, of what is joined by AND each. */
export function chosenLicenses(expression) {
  const bare = expression.replaceAll('/', ' OR ');
  const mixed = bare.includes(' AND ') && bare.replaceAll(/\([^)]*\)/g, '').includes(' OR ');
  if (mixed) throw new Trouble(`the licence \`${expression}\` is too intricate for scripts/licenses.mjs`);
  return bare.split(' AND ').map((part) => {
    const options = part.replaceAll(/[()]/g, '').split(' OR ');
    const choice = [...ACCEPTED.keys()].find((name) => options.some((option) => option.trim() === name));
    if (!choice) throw new Trouble(`the licence \`${expression}\` is not among those that we accept`);
    return choice;
  });
}

/** The crates that end up in the binary of a target: no build scripts, no macros, no tests. */
async function linkedCrates(cargo, target) {
  const args = ['metadata', '--locked', '--format-version=1', `--filter-platform=${target.rust}`];
  const { text } = await mustRun(cargo, args, { output: 'capture' });
  const { packages, resolve } = JSON.parse(text);
  const byId = new Map(packages.map((each) => [each.id, each]));
  const nodes = new Map(resolve.nodes.map((node) => [node.id, node]));
  const linked = new Set();
  const open = [resolve.root];
  for (let id = open.pop(); id !== undefined; id = open.pop()) {
    const isMacro = byId.get(id).targets.some(({ kind }) => kind.includes('proc-macro'));
    if (linked.has(id) || isMacro) continue;
    linked.add(id);
    const normal = nodes.get(id).deps.filter(({ dep_kinds }) => dep_kinds.some(({ kind }) => kind === null));
    open.push(...normal.map(({ pkg }) => pkg));
  }
  linked.delete(resolve.root);
  return [...linked].map((id) => byId.get(id));
}

/** Texts of the licences that we chose, and of notices whose kind is not known. */
function textsOf({ license, license_file: file, manifest_path: manifest }) {
  const folder = dirname(manifest);
  const files = readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isFile() && LICENSE_FILE.test(entry.name))
    .map((entry) => join(folder, entry.name));
  if (file && files.length === 0) files.push(join(folder, file));
  const chosen = chosenLicenses(license);
  return files
    .sort()
    .map((each) =>
      readFileSync(each, 'utf8')
        .replaceAll('\r\n', '\n')
        .replaceAll(/[ \t]+$/gm, '')
        .trim(),
    )
    .filter((text) => {
      const kinds = [...ACCEPTED].filter(([, words]) => words.test(text)).map(([kind]) => kind);
      return text !== '' && (kinds.length === 0 || kinds.some((kind) => chosen.includes(kind)));
    });
}

/** What to print for a crate that carries no text of the licence it is under. */
function standardText(license, { authors }, known) {
  if (license === 'MIT') {
    const holder =
      authors.length > 0 ? authors.map((name) => name.replace(/ <.*/, '')).join(', ') : 'its authors';
    const own = readFileSync(join(root, 'LICENSE'), 'utf8').trim();
    return own.replace(/^Copyright.*$/m, `Copyright (c) ${holder}`);
  }
  const text = known.find((each) => ACCEPTED.get(license).test(each));
  if (!text) throw new Trouble(`no text of the licence ${license} is at hand`);
  return text;
}

const INTRODUCTION = `Third-party software in the native add-on of mcp-switchboard

The binaries contain the crates below and the Rust standard library (MIT OR Apache-2.0, The Rust Project Developers),
each under the licence named beside it. Not every platform has all of them. Made by scripts/licenses.mjs; do not edit.
`;

/** The whole file for a set of crates. */
export function licensesText(crates) {
  const list = crates.map((crate) => ({
    crate,
    chosen: chosenLicenses(crate.license),
    texts: textsOf(crate),
  }));
  const known = list.flatMap(({ texts }) => texts).sort();
  const byText = new Map();
  for (const { crate, chosen, texts } of list) {
    const all = texts.length > 0 ? texts : chosen.map((license) => standardText(license, crate, known));
    for (const text of all) byText.set(text, [...(byText.get(text) ?? []), `${crate.name} ${crate.version}`]);
  }
  const line = '-'.repeat(80);
  const index = list.map(({ crate, chosen }) => `${crate.name} ${crate.version}: ${chosen.join(' and ')}`);
  const sections = [...byText].map(([text, names]) => `${line}\n${names.join(', ')}\n${line}\n\n${text}\n`);
  return `${INTRODUCTION}\n${index.join('\n')}\n\n${sections.sort().join('\n')}`;
}

/** Every crate of every target, once, in the order of their names. */
async function allCrates(cargo) {
  const crates = new Map();
  for (const target of TARGETS)
    for (const crate of await linkedCrates(cargo, target)) crates.set(crate.id, crate);
  const key = ({ name, version }) => `${name} ${version}`;
  return [...crates.values()].sort((left, right) => (key(left) < key(right) ? -1 : 1));
}

await runScript(import.meta, async (args) => {
  const text = licensesText(await allCrates(await checkRust()));
  const file = join(root, FILE);
  if (readIfThere(file)?.toString() === text) return;
  if (args.includes('--check')) throw new Trouble(`${FILE} is out of date: run \`npm run format\``);
  writeFileSync(file, text);
});
