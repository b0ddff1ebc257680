'use strict';
// Content of results and prompts as text.

const { size } = require('./words.js');

const bytesOf = ({ data }) => size(Buffer.byteLength(data, 'base64'));

function blockText(block) {
  switch (block.type) {
    case 'text':
      return block.text;
    case 'image':
    case 'audio':
      return `[${block.type} ${block.mimeType}, ${bytesOf(block)}; --json has it in base64]`;
    case 'file':
      return `[file ${block.path}${block.mimeType ? ` ${block.mimeType}` : ''}, ${size(block.bytes)}]`;
    case 'resource_link':
      return `[resource ${block.uri}${block.name ? ` (${block.name})` : ''}]`;
    default:
      return JSON.stringify(block.raw ?? block);
  }
}

/** What a result says; its structured answer where it says nothing else. */
function resultText({ content, structuredContent }) {
  if (content.length === 0 && structuredContent !== undefined)
    return JSON.stringify(structuredContent, null, 2);
  return content.map(blockText).join('\n');
}

module.exports = { blockText, resultText };
