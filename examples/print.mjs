// How the tour prints: aligned, in colour on a terminal, plain everywhere else. Nothing of MCP is in here.

import { styleText } from 'node:util';

const terminal = process.stdout.isTTY === true;
const coloured = terminal && !process.env.NO_COLOR;
const width = terminal ? Math.min(process.stdout.columns || 100, 120) : 100;

const style = (format, text) => (coloured ? styleText(format, text) : text);

export function heading(text) {
  console.log(`\n${style('bold', text)}`);
}

export function note(text) {
  console.log(`  ${text}`);
}

/** A table with aligned columns; numbers to the right. */
export function table(titles, rows) {
  const widths = titles.map((title, column) =>
    Math.max(title.length, ...rows.map((row) => row[column].length)),
  );
  const isNumber = (column) => rows.every((row) => /^\d*$/.test(row[column]));
  const line = (row) =>
    row
      .map((cell, column) => (isNumber(column) ? cell.padStart(widths[column]) : cell.padEnd(widths[column])))
      .join('  ')
      .trimEnd();
  note(style('dim', line(titles)));
  for (const row of rows) note(line(row));
}

/** Many short texts, as many beside each other as fit, read downwards. */
export function columns(items) {
  const cell = Math.max(...items.map(({ length }) => length)) + 2;
  const count = Math.max(1, Math.floor((width - 2) / cell));
  const height = Math.ceil(items.length / count);
  for (let row = 0; row < height; row += 1) {
    const line = items.filter((_, index) => index % height === row).map((item) => item.padEnd(cell));
    note(line.join('').trimEnd());
  }
}

export function bytes(count) {
  return count < 1024 ? `${count} bytes` : `${(count / 1024).toFixed(1)} KiB`;
}

/** The progress of one call: a bar that redraws itself on a terminal, a line for each step elsewhere. */
export class Progress {
  #name;

  constructor(name) {
    this.#name = name;
  }

  update({ progress, total = progress }) {
    const filled = total > 0 ? Math.round((20 * progress) / total) : 0;
    const text = `  ${this.#name} [${'#'.repeat(filled).padEnd(20, '.')}] ${progress}/${total}`;
    process.stdout.write(terminal ? `\r${text}` : `${text}\n`);
  }

  end() {
    if (terminal) process.stdout.write(`\r${' '.repeat(this.#name.length + 36)}\r`);
  }
}
