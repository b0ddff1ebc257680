'use strict';
// The result of a tool call. Where the wire result has the public shape already, it is handed on as it is.

class ToolResult {
  #wire;

  constructor({ server, tool, fullName, elapsedMs, plain, value, raw }) {
    this.server = server;
    this.tool = tool;
    this.fullName = fullName;
    this.content = value.content;
    if (value.structuredContent !== undefined) this.structuredContent = value.structuredContent;
    this.isError = value.isError === true;
    const meta = plain ? value._meta : value.meta;
    if (meta !== undefined) this.meta = meta;
    this.elapsedMs = elapsedMs;
    this.#wire = plain ? value : raw;
  }

  /** The result as the server sent it. */
  get raw() {
    return this.#wire;
  }
}

module.exports = { ToolResult };
