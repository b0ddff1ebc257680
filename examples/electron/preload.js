'use strict';
// The little that a window may do.

const { contextBridge, ipcRenderer } = require('electron');

contextBridge.exposeInMainWorld('mcp', {
  tools: () => ipcRenderer.invoke('tools'),
  call: (tool, input) => ipcRenderer.invoke('call', tool, input),
  onStatus: (listener) => ipcRenderer.on('status', (_, status) => listener(status)),
});
