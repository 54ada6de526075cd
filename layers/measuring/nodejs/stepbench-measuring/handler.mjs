// The handler that Lambda's runtime is given in place of a function's own: it stamps t4, calls that, and stamps t5 when it
// returns, throws, calls back, or its promise settles. Nothing but Node.js itself.

import { randomBytes } from 'node:crypto';
import { writeSync } from 'node:fs';

import { now, resolutionNs } from './clock.mjs';
import { load } from './load.mjs';
import { chunks, delivered, FEW_RECORDS, failedItems, line } from './records.mjs';

const importedNs = now(); // before the function's own module, which is a part of the sandbox's init
const AHEAD_NS = 1_000_000_000n; // a sandbox that waited so long for its first invocation was made ahead: no cold start
const STDOUT = 1;
const BUSY_MS = 1_000; // so long a full pipe is waited for
const STREAMING = Symbol.for('aws.lambda.runtime.handler.streaming');
const HERE = import.meta.url.slice(0, import.meta.url.lastIndexOf('/'));

const name = process.env.STEPBENCH_HANDLER ?? '';
const trial = process.env.STEPBENCH_TRIAL ?? '';
const identity = process.env.STEPBENCH_IDENTITY ?? '';
process.env._HANDLER = name; // as the function would see it without this layer
const own = await load(process.env.LAMBDA_TASK_ROOT ?? process.cwd(), name);
const isAsync = own.constructor.name === 'AsyncFunction';
for (const eventSource of ['aws:s3', 'aws:dynamodb', '']) rehearse({ Records: [{ eventSource }] });
const readyNs = now();
const asleep = new Int32Array(new SharedArrayBuffer(4));
const sandbox = randomBytes(6).toString('hex');
let used = false;
let unfinished = null; // ends the last invocation, should its event loop run empty first

function write(text) {
  let left = Buffer.from(text);
  for (let waited = 0; left.length && waited < BUSY_MS; ) {
    try {
      left = left.subarray(writeSync(STDOUT, left));
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error;
      waited += 1;
      Atomics.wait(asleep, 0, 0, 1);
    }
  }
}

// Go once through what the first line takes: the first time takes a millisecond, which would count as handler time.
function rehearse(event) {
  const [source, records] = delivered(event, identity);
  line('', { at: importedNs, source }, chunks(records)[0][1]);
}

// Whatever goes wrong with a line, the function's result stands.
function attempt(step) {
  try {
    return step();
  } catch {
    return null;
  }
}

function isCold(t4) {
  const first = !used;
  used = true;
  return first && t4 - readyNs < AHEAD_NS;
}

// Write the first line, before the handler: one that never ends has it, too.
function begin(t4, event, context) {
  const cold = isCold(t4);
  const [source, records] = delivered(event, identity);
  const common = { trial, request: context.awsRequestId, t4 };
  const few = records.length <= FEW_RECORDS;
  const ofSandbox = { sandbox, cold, init_ns: readyNs - importedNs, t4_resolution_ns: resolutionNs() };
  const fields = { ...common, ...ofSandbox, batch: records.length, source };
  write(line('stepbench.t4', fields, few ? chunks(records)[0][1] : '[]'));
  return { common, records, few };
}

// Write the other lines; the last of the records are in the last line.
function finish(t5, { common, records, few }, error, result) {
  const lines = few ? [[0, '[]']] : chunks(records);
  const [, last] = lines.pop();
  let from = 0;
  for (const [count, chunk] of lines) {
    write(line('stepbench.records', { ...common, from }, chunk));
    from += count;
  }
  write(line('stepbench.t5', { ...common, t5, error, failed: failedItems(result, records) }, last));
}

// An error's type as the runtime reports it, and its stack without this layer's frames.
function typeOf(error) {
  if (error === undefined || error === null) return 'handled'; // a promise that is rejected with nothing
  const stack = attempt(() => error.stack);
  if (typeof stack !== 'string') return typeof error;
  if (stack.includes(HERE)) {
    error.stack = stack.split('\n').filter((frame) => !frame.includes(HERE)).join('\n');
  }
  return String(error.name);
}

function call(t4, event, context, callback) {
  if (unfinished) process.removeListener('beforeExit', unfinished);
  const invocation = attempt(() => begin(t4, event, context));
  const end = (t5, error, result) => {
    if (unfinished !== exit) return; // only the first end counts
    process.removeListener('beforeExit', exit);
    unfinished = null;
    attempt(() => finish(t5, invocation, error, result));
  };
  const exit = () => end(now(), isAsync ? 'Runtime.NodeJsExit' : '', null);
  const settle = (t5, error, result) => end(t5, attempt(() => typeOf(error)) ?? 'handled', result);
  unfinished = exit;
  process.prependOnceListener('beforeExit', exit); // without a callback or a promise, an empty event loop is the end
  try {
    const calledBack = (error, result, ...rest) => {
      const t5 = now();
      if (error === undefined || error === null) end(t5, '', result);
      else settle(t5, error);
      return callback(error, result, ...rest);
    };
    const result = own(event, context, ...(callback === undefined ? [] : [calledBack]));
    if (typeof result?.then !== 'function') {
      if (callback === undefined) end(now(), '', result); // Node.js 24 has no callbacks: what is returned counts
      return result;
    }
    return result.then(
      (value) => {
        end(now(), '', value);
        return value;
      },
      (error) => {
        settle(now(), error);
        throw error;
      },
    );
  } catch (error) {
    settle(now(), error);
    throw error;
  }
}

// The runtime looks at what kind of function a handler is, and how many arguments it takes.
const measured = isAsync
  ? async (event, context, callback) => {
      const t4 = now();
      return call(t4, event, context, callback);
    }
  : (event, context, callback) => {
      const t4 = now();
      return call(t4, event, context, callback);
    };
Object.defineProperty(measured, 'length', { value: own.length });

// What streams its answer is left as it is: it has no one end that could be stamped.
export const handler = own[STREAMING] ? own : measured;
