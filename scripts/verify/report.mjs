// What a `verify` script found: says each step as it ends, and all of them as a table at the end.

/** A step that cannot be done here, with the reason; it fails the script unless it was asked for or is optional. */
export class NotHere extends Error {}

export class Report {
  #tables = [];
  #failures = [];
  #left = [];

  constructor(title) {
    this.table(title);
  }

  /** Begins a new table; `title` is the heading of its first column. */
  table(title) {
    this.#tables.push({ title, columns: [], rows: new Map() });
  }

  /** Does one step and notes how it went; gives its result, or nothing when it failed. Never throws. */
  async step(row, column, body) {
    const begin = Date.now();
    try {
      const result = await body();
      this.#note(row, column, 'ok', begin);
      return result;
    } catch (error) {
      if (error instanceof NotHere) this.skip(row, column, error.message);
      else this.#fail(row, column, error, begin);
      return undefined;
    }
  }

  /** Notes what was not done, and why. */
  skip(row, column, reason) {
    this.#set(row, column, 'left out');
    this.#left.push(`${row}, ${column}: ${reason}`);
    console.error(`left out  ${row}, ${column}: ${reason}`);
  }

  #fail(row, column, error, begin) {
    this.#note(row, column, 'FAILED', begin);
    const text = String(error?.message ?? error);
    this.#failures.push(`${row}, ${column}: ${text.split('\n', 1)[0]}`);
    console.error(`  ${text.replaceAll('\n', '\n  ')}`);
  }

  #note(row, column, word, begin) {
    this.#set(row, column, word);
    console.error(`${word.padEnd(8)}  ${row}, ${column} (${((Date.now() - begin) / 1000).toFixed(1)} s)`);
  }

  #set(row, column, word) {
    const { columns, rows } = this.#tables.at(-1);
    if (!columns.includes(column)) columns.push(column);
    if (!rows.has(row)) rows.set(row, new Map());
    rows.get(row).set(column, word);
  }

  /** Prints the tables and, in a line each, what went wrong; gives the exit code. A run in which nothing succeeded has failed. */
  end() {
    for (const { title, columns, rows } of this.#tables) {
      if (rows.size === 0) continue;
      const lines = [...rows].map(([row, cells]) => [
        row,
        ...columns.map((column) => cells.get(column) ?? ''),
      ]);
      printTable([[title, ...columns], ...lines]);
    }
    console.log('');
    for (const line of this.#left) console.log(`left out: ${line}`);
    for (const line of this.#failures) console.log(`FAILED: ${line}`);
    const words = this.#tables.flatMap(({ rows }) =>
      [...rows.values()].flatMap((cells) => [...cells.values()]),
    );
    const count = (word) => words.filter((other) => other === word).length;
    console.log(`${count('ok')} ok, ${count('FAILED')} failed, ${count('left out')} left out`);
    return this.#failures.length === 0 && count('ok') > 0 ? 0 : 1;
  }
}

function printTable(rows) {
  const widths = rows[0].map((_, column) => Math.max(...rows.map((row) => row[column].length)));
  console.log('');
  for (const row of rows) {
    const cells = row.map((text, column) => text.padEnd(widths[column]));
    console.log(cells.join('  ').trimEnd());
  }
}
