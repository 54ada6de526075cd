// The runtime of a Node.js function in a sandbox of the embedded run. AWS publishes its own with a compiled module, which
// is not needed on one machine; this keeps to what AWS documents: "Using the Lambda runtime API", and "Define Lambda
// function handler in Node.js" in Lambda's guide. Handlers are found by the measuring layer's loader, which does it as
// AWS's runtime does. Run as `node lambda_client.mjs` by `lambda_sandbox.py`.

import { Agent, request } from 'node:http';
import { format, types } from 'node:util';

import { load } from '../../../../../layers/measuring/nodejs/stepbench-measuring/load.mjs';

const [HOST, PORT] = process.env.AWS_LAMBDA_RUNTIME_API.split(':');
const STREAMING = Symbol.for('aws.lambda.runtime.handler.streaming');
const LEVELS = { log: 'INFO', trace: 'TRACE', debug: 'DEBUG', info: 'INFO', warn: 'WARN', error: 'ERROR' };
const CALLBACKS_UNTIL = 22; // Node.js of this version is the last with them
const agent = new Agent({ keepAlive: true });
let current = ''; // the request id of the invocation under way
let onEmptyLoop = () => {};

function say(level, text) {
  process.stdout.write(`${new Date().toISOString()}\t${current || undefined}\t${level}\t${text.replaceAll('\n', '\r')}\n`);
}

for (const [method, level] of Object.entries(LEVELS)) console[method] = (...given) => say(level, format(...given));

function ask(method, path, body = '') {
  return new Promise((resolve, reject) => {
    const headers = { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) };
    const options = { host: HOST, port: PORT, method, path: `/2018-06-01/runtime/${path}`, agent, headers };
    const asked = request(options, (answer) => {
      const pieces = [];
      answer.on('data', (piece) => pieces.push(piece));
      answer.on('end', () => resolve([answer.headers, Buffer.concat(pieces).toString()]));
    });
    asked.on('error', reject);
    asked.end(body);
  });
}

// An error as the Runtime API takes it: of what is no error only the type and the text are known.
function reported(error) {
  if (types.isNativeError(error) || (error?.name && error?.message && error?.stack)) {
    return { errorType: error.name, errorMessage: error.message, trace: String(error.stack).split('\n') };
  }
  return { errorType: typeof error, errorMessage: String(error), trace: [] };
}

function fail(path, title, error) {
  const { errorType, errorMessage, trace } = reported(error);
  say('ERROR', `${title} \t${JSON.stringify({ errorType, errorMessage, code: error?.code, ...error, stack: trace })}`);
  return ask('POST', path, JSON.stringify(reported(error)));
}

function named(name, message) {
  return Object.assign(new Error(message), { name });
}

// The ends of an invocation: the first counts. A result that is called back waits until the event loop is empty.
function endings(id, isAsync, next) {
  let ended = false;
  const close = (step) => {
    onEmptyLoop = () => {};
    step().then(next, () => process.exit(1)); // the emulator has ended
  };
  const succeed = (result) => {
    let text;
    try {
      text = JSON.stringify(result === undefined ? null : result);
    } catch {
      return refuse(named('Runtime.JSONStringifyError', 'Unable to stringify response body'));
    }
    return close(() => ask('POST', `invocation/${id}/response`, text ?? 'null'));
  };
  const refuse = (error) => close(() => fail(`invocation/${id}/error`, 'Invoke Error', error));
  const once = (step) => (...given) => {
    if (ended) return;
    ended = true;
    step(...given);
  };
  const context = { callbackWaitsForEmptyEventLoop: true };
  const isError = (error) => error !== undefined && error !== null;
  const done = (error, result) => (isError(error) ? refuse(error) : succeed(result));
  const callback = (error, result) => {
    if (isError(error)) refuse(error);
    else if (context.callbackWaitsForEmptyEventLoop) onEmptyLoop = () => succeed(result);
    else succeed(result);
  };
  Object.assign(context, {
    done: once(done),
    succeed: once((result) => done(null, result)),
    fail: once((error) => done(error ?? 'handled')),
  });
  onEmptyLoop = once(() => (isAsync ? refuse(named('Runtime.NodeJsExit', 'The function ended without a result')) : succeed(null)));
  return [context, once(callback)];
}

function contextOf(headers, context) {
  const deadlineMs = Number(headers['lambda-runtime-deadline-ms']);
  const { env } = process;
  return Object.assign(context, {
    awsRequestId: current,
    invokedFunctionArn: headers['lambda-runtime-invoked-function-arn'],
    functionName: env.AWS_LAMBDA_FUNCTION_NAME,
    functionVersion: env.AWS_LAMBDA_FUNCTION_VERSION,
    memoryLimitInMB: env.AWS_LAMBDA_FUNCTION_MEMORY_SIZE,
    logGroupName: env.AWS_LAMBDA_LOG_GROUP_NAME,
    logStreamName: env.AWS_LAMBDA_LOG_STREAM_NAME,
    getRemainingTimeInMillis: () => deadlineMs - Date.now(),
  });
}

async function serve(handler, version) {
  const [headers, body] = await ask('GET', 'invocation/next');
  current = headers['lambda-runtime-aws-request-id'];
  const trace = headers['lambda-runtime-trace-id'];
  if (trace) process.env._X_AMZN_TRACE_ID = trace;
  else delete process.env._X_AMZN_TRACE_ID;
  const isAsync = handler.constructor.name === 'AsyncFunction';
  const [ends, callback] = endings(current, isAsync, () => setImmediate(serve, handler, version));
  const context = contextOf(headers, ends);
  const { succeed, fail: refuse } = context;
  try {
    const result = handler(JSON.parse(body), context, ...(version <= CALLBACKS_UNTIL ? [callback] : []));
    if (typeof result?.then === 'function') result.then(succeed, refuse);
    else if (version > CALLBACKS_UNTIL) succeed(result);
  } catch (error) {
    refuse(error);
  }
}

function endWith(code, title, error) {
  const path = current ? `invocation/${current}/error` : 'init/error';
  fail(path, title, error).finally(() => process.exit(code));
}

process.on('beforeExit', () => {
  const step = onEmptyLoop;
  onEmptyLoop = () => {};
  step();
});
process.on('uncaughtException', (error) => endWith(129, 'Uncaught Exception', error));
process.on('unhandledRejection', (reason) => {
  const error = named('Runtime.UnhandledPromiseRejection', String(reason?.stack ? `${reason.name}: ${reason.message}` : reason));
  endWith(128, 'Unhandled Promise Rejection', Object.assign(error, { reason: String(reason) }));
});
globalThis.awslambda = { streamifyResponse: (handler) => Object.assign(handler, { [STREAMING]: 'response' }) };

// Return the function's handler; what Lambda's runtime refuses, and what this one cannot do, is an error of the start.
async function loadHandler(version) {
  let handler;
  try {
    handler = await load(process.env.LAMBDA_TASK_ROOT, process.env._HANDLER);
  } catch (error) {
    if (error instanceof SyntaxError) throw named('Runtime.UserCodeSyntaxError', String(error));
    if (error?.code === 'MODULE_NOT_FOUND') throw named('Runtime.ImportModuleError', String(error));
    throw error;
  }
  if (handler[STREAMING]) throw named('Runtime.MalformedStreamingHandler', 'The embedded run streams no responses.');
  if (version > CALLBACKS_UNTIL && handler.length > 2) {
    throw named('Runtime.CallbackHandlerDeprecated', 'Handlers with a callback are not supported from Node.js 24 on.');
  }
  return handler;
}

// The version of the function's runtime: callbacks went with it, whichever Node.js stands for it here.
const version = Number(/nodejs(\d+)/.exec(process.env.AWS_EXECUTION_ENV)?.[1] ?? process.versions.node.split('.')[0]);
loadHandler(version).then(
  (handler) => serve(handler, version),
  (error) => endWith(1, 'Uncaught Exception', error),
);
