// The handler that Lambda's runtime is given in place of a function's own: it stamps t4, calls that, and stamps t5 when it
// returns, throws, calls back, or its promise settles. Nothing but Node.js itself.

import { randomBytes } from 'node:crypto';
import { writeSync } from 'node:fs';

import { now, resolutionNs } from './clock.mjs';
import { load } from './load.mjs';
import { beginLine, commonFields, delivered, endLines } from './records.mjs';

const importedNs = now(); // before the function's own module, which is a part of the sandbox's init
const AHEAD_NS = 1_000_000_000n; // a sandbox that waited so long for its first invocation was made ahead: no cold start
const STDOUT = 1;
const BUSY_MS = 1_000; // so long a full pipe is waited for
const STREAMING = Symbol.for('aws.lambda.runtime.handler.streaming');
const HERE = import.meta.url.slice(0, import.meta.url.lastIndexOf('/'));

const name = process.env.STEPBENCH_HANDLER ?? '';
const trial = process.env.STEPBENCH_TRIAL ?? '';
const identity = process.env.STEPBENCH_IDENTITY ?? '';
const place = process.env.STEPBENCH_RESULTS_TABLE ?? '';
process.env._HANDLER = name; // as the function would see it without this layer
const own = await load(process.env.LAMBDA_TASK_ROOT ?? process.cwd(), name);
const isAsync = own.constructor.name === 'AsyncFunction';
const sandbox = randomBytes(6).toString('hex');
rehearse({ eventSource: 'aws:s3', s3: { object: {} } });
rehearse({ eventSource: 'aws:dynamodb', dynamodb: { Keys: { pk: {} } } });
const readyNs = now();
const initNs = readyNs - importedNs;
const asleep = new Int32Array(new SharedArrayBuffer(4));
// Last, since it is no part of the function's own init.
const opened = place ? await import('./table.mjs').catch(() => null) : null;
const table = opened && attempt(() => new opened.ResultsTable(place, trial, process.env));
let used = false;
let unfinished = null; // ends the last invocation, should its event loop run empty first

function write(text) {
  let left = text; // a buffer only of what did not fit: to make one takes as long as to write
  for (let waited = 0; left.length && waited < BUSY_MS; ) {
    try {
      const written = writeSync(STDOUT, left);
      if (written === Buffer.byteLength(left)) return;
      left = Buffer.from(left).subarray(written);
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error;
      waited += 1;
      Atomics.wait(asleep, 0, 0, 1);
    }
  }
}

// The first line, and what those after the handler need.
function firstLine(t4, cold, requestId, event, init) {
  const [source, records] = delivered(event, identity);
  const common = commonFields(trial, requestId, t4);
  const ofSandbox = `"sandbox":"${sandbox}","cold":${cold},"init_ns":${init},"t4_resolution_ns":${resolutionNs()}`;
  return { common, records, begun: beginLine(common, ofSandbox, source, records) };
}

// Go once through what the first line takes: the first time takes a millisecond, which would count as handler time.
function rehearse(record) {
  firstLine(importedNs, false, '', { Records: [record] }, 0n);
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
  const invocation = firstLine(t4, isCold(t4), context.awsRequestId, event, initNs);
  write(invocation.begun);
  return invocation;
}

// Put all lines into the results table where the trial asks for that, and something can wait for it; return what is to
// be waited for. Else write those that are left.
function finish(times, { common, records, begun }, context, waits, error, result) {
  const lines = endLines(common, times, error || refused(result), result, records);
  const print = () => lines.forEach(write);
  if (!table || !waits) return print();
  const remainingMs = attempt(() => context.getRemainingTimeInMillis()) ?? 0;
  const put = table.put(times.t5, context.awsRequestId, [begun, ...lines], remainingMs);
  return put.then((taken) => taken || attempt(print));
}

// Go on once the table has answered, and at once if nothing waits for it.
function after(ended, step) {
  return ended ? ended.then(step) : step();
}

// An error's type as the runtime reports it, and its stack without this layer's frames.
function typeOf(error) {
  if (error === undefined || error === null) return 'handled'; // a promise that is rejected with nothing
  const stack = attempt(() => error.stack);
  if (typeof stack !== 'string') return typeof error;
  if (stack.includes(HERE)) {
    const frames = stack.split('\n').filter((frame) => !frame.includes(HERE));
    attempt(() => {
      error.stack = frames.join('\n'); // not of one that is frozen
    });
  }
  return String(error.name ?? '') || 'Error';
}

// The type of the error that the runtime reports of a result which it cannot encode; '' of any other.
function refused(result) {
  if (typeof result !== 'object' && typeof result !== 'bigint') return '';
  try {
    JSON.stringify(result);
    return '';
  } catch {
    return 'Runtime.JSONStringifyError';
  }
}

function call(t4, event, context, callback) {
  if (unfinished) process.removeListener('beforeExit', unfinished);
  const invocation = attempt(() => begin(t4, event, context));
  let called = t4;
  let waiting = null; // for the table, which has the lines of the first end
  const end = (t5, waits, error, result) => {
    if (unfinished !== exit) return waiting; // only the first end counts, and a later one comes after it
    process.removeListener('beforeExit', exit);
    unfinished = null;
    waiting = attempt(() => finish({ called, t5 }, invocation, context, waits, error, result));
    return waiting;
  };
  const exit = () => end(now(), false, isAsync ? 'Runtime.NodeJsExit' : '', null);
  const settle = (t5, waits, error) => end(t5, waits, attempt(() => typeOf(error)) ?? 'handled', null);
  unfinished = exit;
  process.prependOnceListener('beforeExit', exit); // without a callback or a promise, an empty event loop is the end
  try {
    const calledBack = (error, result, ...rest) => {
      const t5 = now();
      const fine = error === undefined || error === null;
      const ended = fine ? end(t5, true, '', result) : settle(t5, true, error);
      return after(ended, () => callback(error, result, ...rest));
    };
    called = now(); // what came before is the layer's
    const result = own(event, context, ...(callback === undefined ? [] : [calledBack]));
    if (typeof result?.then !== 'function') {
      if (callback !== undefined) return result;
      return after(end(now(), true, '', result), () => result); // Node.js 24 has no callbacks: what is returned counts
    }
    return result.then(
      (value) => after(end(now(), true, '', value), () => value),
      (error) =>
        after(settle(now(), true, error), () => {
          throw error;
        }),
    );
  } catch (error) {
    return after(settle(now(), false, error), () => {
      throw error;
    });
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
