// What the runs of the conformance suite mean: which there are, which are wanted and which have passed.
// Decides over text and data alone; scripts/conformance.mjs runs them.

/** Stands in the suite's list where a scenario belongs to an extension instead of a revision of the protocol. */
export const EXTENSION = 'extension';

/**
 * Reads the list that the suite prints, one scenario a line: `- name [revision,revision]`.
 * @returns {{ name: string, revision: string }[]} one entry for each revision a scenario runs at
 */
export function readList(text) {
  const lines = text.matchAll(/^\s*-\s+(\S+)\s+\[([^\]]+)\]\s*$/gm);
  return [...lines].flatMap(([, name, revisions]) =>
    revisions.split(',').map((revision) => ({ name, revision: revision.trim() })),
  );
}

/**
 * The runs that are wanted: all, or those whose name begins with one of `names`. Without `auth` only the protocol itself
 * is left: nothing that needs an authorization server, and no extension.
 * @param {{ name: string, revision: string }[]} runs
 * @param {{ auth?: boolean, names?: string[] }} wanted
 */
export function choose(runs, { auth = true, names = [] } = {}) {
  return runs
    .filter(({ name, revision }) => auth || !(name.startsWith('auth/') || revision === EXTENSION))
    .filter(({ name }) => names.length === 0 || names.some((wanted) => name.startsWith(wanted)));
}

/** How a run is called in tables and in the file of expected failures. */
export function label({ name, revision }) {
  return `${name}@${revision}`;
}

/**
 * Whether a run has passed. Stricter than the suite: a warning is a failure, and so is a run in which nothing succeeded,
 * because a client that does nothing at all leaves only skipped checks behind.
 * @param {{ id: string, status: string, errorMessage?: string }[] | undefined} checks what the suite wrote, if it did
 * @param {number} code exit code of the suite, which stands for the client's where the scenario does not allow an error
 */
export function judge(checks, code = 0) {
  const of = (...statuses) => checks?.filter(({ status }) => statuses.includes(status)) ?? [];
  const succeeded = of('SUCCESS').length;
  const bad = of('FAILURE', 'WARNING');
  const reasons = bad.map(({ id, status, errorMessage }) =>
    [`${status.toLowerCase()} ${id}`, errorMessage].filter(Boolean).join(': '),
  );
  if (checks === undefined) reasons.push('the suite wrote no result');
  else if (succeeded === 0) reasons.push('no check succeeded');
  if (code !== 0 && bad.length === 0) reasons.push(`ended with exit code ${code}`);
  return { passed: reasons.length === 0, succeeded, checked: succeeded + bad.length, reasons };
}

/**
 * The totals of runs one by one. An expected failure counts neither way; one that has passed is a failure, so that the
 * list can only get shorter.
 * @param {{ run: { name: string, revision: string }, verdict: { passed: boolean } }[]} results
 * @param {string[]} expected labels of runs that are known to fail
 */
export function count(results, expected = []) {
  const known = ({ run }) => expected.includes(label(run));
  const stale = results.filter((result) => known(result) && result.verdict.passed);
  const passed = results.filter((result) => !known(result) && result.verdict.passed);
  const failed = results.filter((result) => !known(result) && !result.verdict.passed);
  return {
    passed: passed.length,
    failed: failed.length + stale.length,
    stale: stale.map(({ run }) => label(run)),
  };
}
