'use strict';
// Texts for people: what others wrote made harmless, commands as one would type them, sizes, and tables.

/**
 * Control characters, which a terminal obeys, those that turn the direction of writing around, and those that nobody sees;
 * but not those that join letters and emojis.
 */
const UNSEEN =
  /(?!\u200C|\u200D|\uFE0E|\uFE0F)[\p{Cc}\p{Bidi_Control}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;
const JOINING = /\u200C|\u200D|\uFE0E|\uFE0F/g;

/** The text with such characters written out; line ends and tabs stay. */
function visible(text) {
  return text.replace(UNSEEN, (one) => (one === '\n' || one === '\t' ? one : written(one)));
}

/** A value as JSON in which nothing hides, for who has to decide about it. */
function spelled(value) {
  return visible(JSON.stringify(value, null, 2)).replace(JOINING, written);
}

const written = (character) => `\\u{${character.codePointAt(0).toString(16)}}`;

/** The text in one line, at most so long. */
function short(text, length = 100) {
  const line = text.trim().replace(/\s+/g, ' ');
  return line.length > length ? `${line.slice(0, length - 1)}…` : line;
}

/** A word as a shell takes it. */
function quoted(word) {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${String(word).replaceAll("'", `'\\''`)}'`;
}

/** What a definition starts or reaches, in one line. */
function target(config) {
  if (typeof config.url === 'string') return config.url;
  const { command, args } = config;
  if (typeof command !== 'string') return config.type ?? '';
  return [command, ...(Array.isArray(args) ? args : [])].map((word) => quoted(String(word))).join(' ');
}

function size(bytes) {
  if (bytes < 1024) return `${bytes} bytes`;
  return bytes < 1 << 20 ? `${(bytes / 1024).toFixed(1)} KiB` : `${(bytes / (1 << 20)).toFixed(1)} MiB`;
}

/**
 * Rows of texts in columns; the last column is as long as it is.
 * @param paint What becomes of a padded cell, by its column and its row.
 */
function columns(rows, paint = (cell) => cell) {
  const widths = [];
  for (const row of rows)
    row.slice(0, -1).forEach((cell, at) => (widths[at] = Math.max(widths[at] ?? 0, cell.length)));
  return rows.map((row, line) => {
    const last = row.length - 1;
    return row.map((cell, at) => paint(at === last ? cell : cell.padEnd(widths[at]), at, line)).join('  ');
  });
}

module.exports = { columns, quoted, short, size, spelled, target, visible };
