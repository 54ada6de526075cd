// A handler is found by its name as Lambda's runtime for Node.js finds it, and fails as there.

import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const require = createRequire('/var/runtime/index.mjs'); // the runtime's own, which errors of a missing module name

function runtimeError(kind, message) {
  class Failure extends Error {}
  Failure.prototype.name = `Runtime.${kind}`;
  return new Failure(message);
}

// Whether package.json makes modules of `.js`: of the folder, or of the nearest above it.
function isOfModules(folder) {
  if (path.basename(folder) === 'node_modules') return false;
  try {
    return JSON.parse(fs.readFileSync(path.join(folder, 'package.json'), 'utf8')).type === 'module';
  } catch (error) {
    const above = path.dirname(folder);
    return error.code === 'ENOENT' && above !== folder && isOfModules(above);
  }
}

async function importModule(root, folder, name) {
  const file = path.resolve(root, folder, name);
  const modules = isOfModules(path.dirname(file));
  const typed = Number(process.versions.node.split('.')[0]) >= 24 ? ['.ts', '.mts', '.cts'] : [];
  for (const extension of ['', '.js', '.mjs', '.cjs', ...typed]) {
    const found = file + extension;
    if (!fs.existsSync(found)) continue;
    const imported = extension.startsWith('.m') || (modules && ['.js', '.ts'].includes(extension));
    return imported ? import(pathToFileURL(found).href) : require(found);
  }
  return require(require.resolve(name, { paths: [root, path.resolve(root, folder)] }));
}

// Return the function that a handler's name means, below the folder of the function's code.
export async function load(root, handler) {
  if (handler.includes('..')) {
    const remedy = 'Use absolute paths when specifying root directories in handler names.';
    throw runtimeError('MalformedHandlerName', `'${handler}' is not a valid handler name. ${remedy}`);
  }
  const base = path.basename(handler);
  const [, name, property] = /^([^.]*)\.(.*)$/.exec(base) ?? [];
  if (name === undefined) throw runtimeError('MalformedHandlerName', 'Bad handler');
  let found = await importModule(root, handler.slice(0, handler.indexOf(base)), name);
  for (const key of property.split('.')) found = found && found[key];
  if (!found) throw runtimeError('HandlerNotFound', `${handler} is undefined or not exported`);
  if (typeof found !== 'function') throw runtimeError('HandlerNotFound', `${handler} is not a function`);
  return found;
}
