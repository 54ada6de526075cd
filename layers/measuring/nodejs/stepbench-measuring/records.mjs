// What the lines of a measured invocation hold, and their format (docs/your-function.md); `records.py` beside, for
// Node.js. Only identities of events leave here, and what AWS itself adds to a record.

const FEW_RECORDS = 16;
const CHUNK_RECORDS = 500;
const CHUNK_BYTES = 200_000; // CloudWatch Logs takes 256 kB a line
const IDENTITY_CHARS = 40;
const EVENT_CHARS = 64;
const POSTGRESQL = 'stepbench:postgresql';

const textOf = (value) => {
  const found = Object.values(value)[0];
  return typeof found === 'string' ? found : '';
};

const quoted = JSON.stringify;

const READ = {
  'aws:s3': ({ s3: { object }, eventName, eventTime = '' }) => [object.key, eventName, eventTime, object.versionId ?? ''],
  'aws:dynamodb': ({ dynamodb: change, eventName }, identity) => {
    const attribute = identity && change.NewImage?.[identity];
    const text = attribute ? shortened(textOf(attribute)) : '';
    const created = change.ApproximateCreationDateTime ?? 0;
    return [eventName, Object.values(change.Keys).map(textOf), text, created, change.SequenceNumber ?? ''];
  },
  [POSTGRESQL]: ({ event, t3_us: t3 }) => [String(event).slice(0, EVENT_CHARS), Math.trunc(Number(t3)) || 0],
};

// By characters, not by halves of them.
function shortened(text) {
  return text.length > IDENTITY_CHARS ? [...text].slice(0, IDENTITY_CHARS).join('') : text;
}

// What names the event of a record; nothing of one that cannot be read, whose place stays.
function named(read, record, identity) {
  try {
    return read(record, identity);
  } catch {
    return [];
  }
}

// What an event's source is called, and what names the event of each of its records; '' and none of another. It is read
// before the handler, which may change what it was given.
export function delivered(event, identity) {
  if (event?.source === POSTGRESQL) return [POSTGRESQL, [named(READ[POSTGRESQL], event, identity)]];
  const records = event?.Records;
  const source = Array.isArray(records) ? records[0]?.eventSource : undefined;
  if (!Object.hasOwn(READ, source)) return ['', []];
  const read = READ[source];
  return [source, records.map((record) => named(read, record, identity))];
}

// What all lines of an invocation have, as JSON between braces.
export function commonFields(trial, request, t4) {
  return `"trial":${quoted(trial)},"request":${quoted(request)},"t4":${t4}`;
}

// The first line, with its records if they are few; `ofSandbox` is JSON between braces.
export function beginLine(common, ofSandbox, source, records) {
  const shown = records.length <= FEW_RECORDS ? quoted(records) : '[]';
  const batch = `"batch":${records.length},"source":"${source}"`;
  return `{"stepbench.t4":{${common},${ofSandbox},${batch},"records":${shown}}}\n`;
}

// The lines that are written after the handler; the last of many records are in the last line.
export function endLines(common, { called, t5 }, error, result, records) {
  const parts = records.length <= FEW_RECORDS ? [[]] : chunks(records);
  const last = parts.pop();
  let from = 0;
  const lines = parts.map((part) => {
    const line = `{"stepbench.records":{${common},"from":${from},"records":[${part.join(',')}]}}\n`;
    from += part.length;
    return line;
  });
  const ended = `"called":${called},"t5":${t5},"error":${quoted(error)},"failed":${quoted(failedItems(result, records))}`;
  return [...lines, `{"stepbench.t5":{${common},${ended},"records":[${last.join(',')}]}}\n`];
}

// Records as JSON, in parts, one a line; the last may be empty.
function chunks(records) {
  const parts = [];
  let part = [];
  let bytes = 0;
  for (const record of records) {
    const text = quoted(record);
    const size = Buffer.byteLength(text) + 1;
    if (part.length === CHUNK_RECORDS || (part.length && bytes + size > CHUNK_BYTES)) {
      parts.push(part);
      [part, bytes] = [[], 0];
    }
    part.push(text);
    bytes += size;
  }
  return [...parts, part];
}

// The identifiers of a partial batch response; null if it is none, '' for one that is no text. Of very many, only those
// that decide: AWS delivers again from the first, and all if one is of no record.
function failedItems(result, records) {
  const items = result?.batchItemFailures;
  if (result === null || typeof result !== 'object' || !('batchItemFailures' in result)) return null;
  if (items === null || items === undefined) return [];
  if (!Array.isArray(items)) return [''];
  const texts = items.map((item) => (typeof item?.itemIdentifier === 'string' ? item.itemIdentifier : ''));
  if (texts.length > CHUNK_RECORDS) {
    const place = new Map(records.map((record, index) => [record.at(-1), index]));
    texts.sort((one, other) => (place.get(one) ?? -1) - (place.get(other) ?? -1));
  }
  return texts.slice(0, CHUNK_RECORDS);
}
