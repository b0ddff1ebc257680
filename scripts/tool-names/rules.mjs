// Decides from what was seen of public servers which names of tools search, which read, and which stand in no table.
//
// A name is read as words: `listOpenIssues` is `list open issues`. What it does is said by its verb: the first word; the
// second where the first names the server or its part (`wiki_get_page`); or the last (`issue_read`). A name is in no
// table when its verb is none of those below, when another word says that something changes, when a server that has it
// says so in its annotations, or when it is a single word (`search` alone is SQL here and the web there). A person who
// read both tables has the last word: `review.json`.

const SEARCH = new Set(['search', 'find', 'lookup']);
const READ = new Set(['get', 'list', 'read', 'describe', 'show', 'view', 'fetch', 'count', 'retrieve']);
/** Verbs that read in some servers and act in others; they count where a server says that the tool is read-only. */
const READ_WHERE_TOLD = new Set([
  'check',
  'inspect',
  'compare',
  'preview',
  'explain',
  'show',
  'fetch',
  'view',
]);
/** Words that say that something changes, whatever the verb: `find_and_replace`, `get_or_create`. */
const CHANGES = new Set(
  `add apply approve assign cancel clear create delete disable edit enable execute insert install kill modify publish
   remove rename replace reset save send submit trigger upload upsert write`.split(/\s+/),
);
/** Verbs that act; as other words they are often nouns (`list_runs`, `get_post`). */
const ACTS = new Set(
  `accept acknowledge append archive ask attach block book build bulk call change checkout clone close commit complete
   configure connect convert copy deploy download draft drop evaluate export extract fill fix fork generate import init
   invite invoke join launch link load lock log make manage mark merge migrate move mute navigate open patch pause pin
   play post press pull purge push put query react rebuild register reject release reload reply request resolve restart
   restore resume retry revert rollback rotate run schedule select set share star start stop subscribe switch sync take
   transfer transition type undo unlink unlock unpin unsubscribe update validate vote wait watch`.split(
    /\s+/,
  ),
);
const isVerb = (word) => SEARCH.has(word) || READ.has(word) || CHANGES.has(word) || ACTS.has(word);

/** The words of a name in lower case, as `src/protocol/classify.rs` tells them apart. */
export function wordsOf(name) {
  const split = name
    .replace(/([\p{Lu}])([\p{Lu}][\p{Ll}])/gu, '$1 $2')
    .replace(/([^\p{Lu}\s])([\p{Lu}])/gu, (both, before, after) =>
      /[\p{L}\p{N}]/u.test(before) ? `${before} ${after}` : both,
    );
  return split
    .toLowerCase()
    .split(/[^\p{L}\p{N}]+/u)
    .filter(Boolean);
}

/** The verb of a name: `{ verb, at }`; none when no word that may be the verb is one. */
function verbOf(words) {
  const candidates = isVerb(words[0]) ? [0] : [0, 1, words.length - 1];
  const at = candidates.find((index) => isVerb(words[index]));
  return at === undefined ? undefined : words[at];
}

const changesSomething = ({ readOnlyHint, destructiveHint }) =>
  readOnlyHint === false || (destructiveHint === true && readOnlyHint !== true);

/**
 * What a name says, seen in one or several servers with these annotations.
 * @returns {{ kind?: 'search' | 'read', why?: string }} `why` when it is in no table
 */
export function classify(name, annotations) {
  const words = wordsOf(name);
  const told = annotations.some(({ readOnlyHint }) => readOnlyHint === true);
  if (annotations.some(changesSomething)) return { why: 'a server says that it changes something' };
  if (words.length < 2) return { why: 'a single word' };
  if (words.some((word) => CHANGES.has(word)) && !(told && READ.has(words[0])))
    return { why: 'a word of change' };
  const verb = verbOf(words);
  if (SEARCH.has(verb)) return { kind: 'search' };
  if (verb === undefined && words.includes('search')) return { kind: 'search' };
  if (READ_WHERE_TOLD.has(verb) || READ_WHERE_TOLD.has(words[0]))
    return told ? { kind: 'read' } : { why: 'a verb that may act' };
  if (READ.has(verb)) return { kind: 'read' };
  return { why: verb === undefined ? 'no known verb' : 'a verb that acts' };
}

/**
 * Classifies every name of the servers once, however it is written.
 * @param {{ package: string, version: string, how: string, tools: { name: string, annotations: object }[] }[]} servers
 * @param {{ leftOut?: Record<string, string>, search?: string[], read?: string[] }} review names as words joined by `_`
 * @returns {{ name: string, kind?: 'search' | 'read', why?: string, where: string, how: string }[]}
 */
export function classifySeen(servers, review) {
  const names = new Map();
  const listedFirst = [...servers].sort((a, b) => (a.how === 'sources') - (b.how === 'sources'));
  for (const server of listedFirst) {
    for (const { name, annotations } of server.tools) {
      const key = wordsOf(name).join('_');
      const where = `${server.package}@${server.version}`;
      if (!names.has(key)) names.set(key, { name, where, how: server.how, annotations: [] });
      names.get(key).annotations.push(annotations ?? {});
    }
  }
  return [...names].map(([key, { annotations, ...entry }]) => ({
    ...entry,
    ...decide(key, entry.name, annotations, review),
  }));
}

function decide(key, name, annotations, { leftOut = {}, search = [], read = [] }) {
  if (key in leftOut) return { why: `by hand: ${leftOut[key]}` };
  if (search.includes(key)) return { kind: 'search' };
  if (read.includes(key)) return { kind: 'read' };
  return classify(name, annotations);
}
