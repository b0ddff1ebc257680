'use strict';
// The result of a tool call. Where the wire result has the public shape already, it is handed on as it is.

class ToolResult {
  #wire;

  constructor({ server, tool, fullName, elapsedMs, plain, value, truncated, raw }) {
    this.server = server;
    this.tool = tool;
    this.fullName = fullName;
    this.content = value.content;
    if (value.structuredContent !== undefined) this.structuredContent = value.structuredContent;
    this.isError = value.isError === true;
    const meta = plain ? value._meta : value.meta;
    if (meta !== undefined) this.meta = meta;
    if (truncated !== undefined) this.truncated = truncated;
    this.elapsedMs = elapsedMs;
    this.#wire = plain ? value : raw;
  }

  /** This result with other parts; `raw` stays what the server sent. */
  with({ content, structuredContent, isError, meta }) {
    if (Array.isArray(content)) this.content = content;
    if (structuredContent !== undefined) this.structuredContent = structuredContent;
    if (typeof isError === 'boolean') this.isError = isError;
    if (meta !== undefined) this.meta = meta;
    return this;
  }

  /** The result in the protocol's form, with the parts it has now. */
  toWire() {
    const { content, structuredContent, isError, meta } = this;
    const wire = { ...this.#wire };
    for (const [name, value] of Object.entries({ content, structuredContent, _meta: meta }))
      if (value !== undefined) wire[name] = value;
    if (isError || wire.isError !== undefined) wire.isError = isError;
    return wire;
  }

  /** The result as the server sent it; of one above the output limit what is left. */
  get raw() {
    return this.#wire;
  }
}

module.exports = { ToolResult };
