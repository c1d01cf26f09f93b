// A client of the line protocol (client-protocol.md) in JavaScript without packages: a producer or a consumer.
//
//   staticfire run --environment processes --workload ordered --client 'node docs/minimal_client.js'
//
// It speaks RocketMQ's remoting by itself. It retries no send.
'use strict';
const net = require('net'), zlib = require('zlib');
const sleep = (ms) => new Promise((wake) => setTimeout(wake, ms));
const say = (fields) => process.stdout.write(JSON.stringify({ error: null, ...fields }) + '\n');
const links = new Map(), owned = new Map(), counters = { delayed: 0, failed: 0 };
let config, listener, retryTopic, opaque = 0, turn = 0, leaving = false;

// ---- RocketMQ's remoting: a frame is its size, the size of its header, a header in JSON, a body

function connect(address) {
  const [host, port] = address.split(':'), waiting = new Map();
  const socket = net.connect(port, host), link = { socket, waiting };
  let held = Buffer.alloc(0), reason = new Error('the connection was closed');
  socket.on('data', (data) => {
    held = Buffer.concat([held, data]);
    while (held.length >= 4 && held.length >= 4 + held.readInt32BE(0)) {
      const end = 4 + held.readInt32BE(0), start = 8 + (held.readInt32BE(4) & 0xffffff);
      const header = JSON.parse(held.subarray(8, start)), body = held.subarray(start, end);
      if (header.flag & 1) waiting.get(header.opaque)?.[0]({ code: header.code, fields: header.extFields ?? {}, body });
      held = held.subarray(end);
    }
  });
  socket.on('error', (error) => (reason = error)).on('close', () => {
    if (links.get(address) === link) links.delete(address);
    for (const [, fail] of waiting.values()) fail(reason);
  });
  links.set(address, link);
  return link;
}

async function ask(address, code, extFields = {}, body = '', isOneWay = false) {
  const { socket, waiting } = links.get(address) ?? connect(address), id = opaque++;
  const header = JSON.stringify({ code, flag: isOneWay ? 2 : 0, language: 'OTHER', opaque: id, version: 401, extFields });
  const head = Buffer.alloc(8);
  head.writeInt32BE(4 + Buffer.byteLength(header) + Buffer.byteLength(body));
  head.writeInt32BE(Buffer.byteLength(header), 4);
  socket.write(Buffer.concat([head, Buffer.from(header), Buffer.from(body)]));
  if (isOneWay) return;
  const timer = setTimeout(() => socket.destroy(), 3000); // no answer: nothing else on this connection gets one
  try {
    return await new Promise((...settle) => waiting.set(id, settle));
  } finally {
    clearTimeout(timer);
    waiting.delete(id);
  }
}

async function queues(topic, permission) { // of all masters: permission 4 to read, 2 to write
  for (const nameServer of config.name_servers) {
    const answer = await ask(nameServer, 105, { topic, acceptStandardJsonOnly: 'true' }).catch(() => null);
    if (answer?.code !== 0) continue;
    const { brokerDatas, queueDatas } = JSON.parse(answer.body);
    return queueDatas.filter((each) => each.perm & permission).flatMap((each) => {
      const address = brokerDatas.find((data) => data.brokerName === each.brokerName)?.brokerAddrs[0];
      const count = address ? (permission === 4 ? each.readQueueNums : each.writeQueueNums) : 0;
      return Array.from({ length: count }, (_, queue) => ({ topic, broker: each.brokerName, queue, address }));
    }).sort((a, b) => (a.broker < b.broker ? -1 : a.broker > b.broker ? 1 : a.queue - b.queue));
  }
  return [];
}

// ---- the producer

const bodyOf = (key, size) => Buffer.from(`${key} `.repeat(size / (key.length + 1) + 1)).subarray(0, size);

async function send(request) {
  if ('padding' in request || 'account' in request) return { type: 'fail', error: 'it can neither pad nor change keys' };
  let places = await queues(request.topic, 2);
  if ('broker' in request) places = places.filter((each) => each.broker === request.broker && each.queue === request.queue);
  if (!places.length) return { type: 'fail', error: 'there is no route' };
  const hash = Buffer.from(request.sharding_key ?? '').reduce((sum, byte) => (sum * 31 + byte) % 1e9, 0);
  const { broker, queue, address } = places[('sharding_key' in request ? hash : turn++) % places.length];
  const properties = { ...request.properties, KEYS: request.key, TAGS: request.tag, DELAY: request.delay_level };
  const text = Object.entries(properties).filter(([, value]) => value !== undefined);
  const fields = { producerGroup: config.group, topic: request.topic, defaultTopic: 'TBW102', defaultTopicQueueNums: '4' };
  Object.assign(fields, { queueId: `${queue}`, sysFlag: '0', flag: '0', bornTimestamp: `${Date.now()}`, reconsumeTimes: '0' });
  Object.assign(fields, { unitMode: 'false', properties: text.map(([name, value]) => `${name}\x01${value}\x02`).join('') });
  try {
    const answer = await ask(address, 10, fields, bodyOf(request.key, request.size), request.one_way);
    if (!answer) return { type: 'info', error: 'one way: no broker answers' };
    const { code } = answer, value = { broker, queue, queue_offset: Number(answer.fields.queueOffset), attempts: 1 };
    if (code === 0) return { type: 'ok', value };
    if ([10, 11, 12].includes(code)) return { type: 'info', value, error: `stored with status ${code}` };
    return { type: [2, 13, 14, 16, 17].includes(code) ? 'fail' : 'info', error: `refused with ${code}` };
  } catch (error) {
    return { type: error.code === 'ECONNREFUSED' ? 'fail' : 'info', error: error.message };
  }
}

// ---- the consumer: a loop for each queue that it has

async function shareOut() { // heartbeats to all masters, then AVG: the queues in order, in runs as equal as can be
  const topics = config.ordered ? [config.topic] : [config.topic, retryTopic];
  const subscriptionDataSet = topics.map((topic) => ({ topic, subString: '*', tagsSet: [], codeSet: [], subVersion: 0 }));
  const group = { groupName: config.group, consumeType: 'CONSUME_PASSIVELY', messageModel: 'CLUSTERING',
    consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET', subscriptionDataSet };
  const beat = JSON.stringify({ clientID: config.client_id, producerDataSet: [], consumerDataSet: [group] });
  const masters = new Set((await queues(config.topic, 4)).map((each) => each.address));
  const lists = await Promise.all([...masters].map(async (address) => {
    await ask(address, 34, {}, beat);
    const answer = await ask(address, 38, { consumerGroup: config.group });
    return answer.code === 0 ? JSON.parse(answer.body).consumerIdList : [];
  }).map((each) => each.catch(() => [])));
  const members = (lists.find((each) => each.includes(config.client_id)) ?? []).sort();
  if (!members.length) return;
  for (const topic of topics) {
    const places = await queues(topic, 4), index = members.indexOf(config.client_id);
    const size = Math.floor(places.length / members.length), rest = places.length % members.length;
    const first = index * size + Math.min(index, rest);
    const mine = new Map(places.slice(first, first + size + (index < rest)).map((each) => [JSON.stringify(each), each]));
    for (const [name, each] of owned) if (places.length && each.topic === topic && !mine.has(name)) owned.delete(name);
    for (const [name, each] of mine) if (!owned.has(name) && !leaving) owned.set(name, { ...each, loop: consume(name, each) });
  }
}

async function consume(name, place) {
  const { topic, broker, queue, address } = place, where = { consumerGroup: config.group, topic, queueId: `${queue}` };
  const pull = { ...where, maxMsgNums: '32', sysFlag: '4', commitOffset: '0', suspendTimeoutMillis: '0',
    subscription: '*', subVersion: '0', expressionType: 'TAG' };
  const queueLock = JSON.stringify({ consumerGroup: config.group, clientId: config.client_id,
    mqSet: [{ topic, brokerName: broker, queueId: queue }] });
  const isMine = async () => !config.ordered || JSON.parse((await ask(address, 41, {}, queueLock)).body).lockOKMQSet.length > 0;
  let offset = null, committed = null;
  await sleep(0);
  while (owned.has(name) && !leaving) {
    try {
      if (!(await isMine())) throw new Error('another member has locked it');
      if (offset === null) {
        const { code, fields } = await ask(address, 14, where);
        if (code !== 0 && code !== 22) throw new Error(`refused with ${code}`); // 22: the group has no offset there
        offset = committed = code === 0 ? Number(fields.offset) : 0;
      }
      const { code, fields, body } = await ask(address, 11, { ...pull, queueOffset: `${offset}` });
      if (![0, 19, 20, 21].includes(code)) throw new Error(`refused with ${code}`);
      for (const message of code === 0 ? messagesIn(body) : []) {
        if (!owned.has(name) || leaving || !(await listen(place, message, isMine))) break;
        offset = message[1] + 1;
      }
      if (code !== 0) offset = Number(fields.nextBeginOffset), await sleep(50);
      if (offset !== committed) await ask(address, 15, { ...where, commitOffset: `${offset}` });
      committed = offset;
    } catch {
      await sleep(200);
    }
  }
  if (config.ordered) await ask(address, 42, {}, queueLock).catch(() => {});
}

function* messagesIn(data) { // [key, queue offset, physical offset, whether the body is intact, how often it was tried]
  for (; data.length; data = data.subarray(data.readInt32BE(0))) {
    const flags = data.readInt32BE(36), hosts = 16 + (flags & 0x10 ? 12 : 0) + (flags & 0x20 ? 12 : 0); // or IPv6
    const tried = data.readInt32BE(56 + hosts), start = 72 + hosts;
    let body = data.subarray(start, start + data.readInt32BE(start - 4));
    if (flags & 1) body = zlib.inflateSync(body);
    const key = body.toString().split(' ', 1)[0];
    const isIntact = key.length > 0 && body.equals(bodyOf(key, body.length));
    yield [key, Number(data.readBigInt64BE(20)), Number(data.readBigInt64BE(28)), isIntact, tried];
  }
}

async function listen({ topic, broker, queue, address }, message, isMine) { // whether it is done with the message
  const where = { group: config.group, topic, broker, queue }, value = { ...where, messages: [message] };
  for (;;) {
    say({ emit: 'consume', type: 'invoke', value });
    if (listener.delay_s) counters.delayed++, await sleep(listener.delay_s * 1000);
    if (Math.random() >= listener.share && message[4] >= listener.tries) return say({ emit: 'consume', type: 'ok', value });
    counters.failed++;
    say({ emit: 'consume', type: 'info', value, error: 'the listener failed' });
    const fields = { offset: `${message[2]}`, group: config.group, delayLevel: `${listener.delay_level}`, originTopic: topic,
      unitMode: 'false', maxReconsumeTimes: `${config.reconsume_times_max >= 0 ? config.reconsume_times_max : 16}` };
    const answer = config.ordered ? null : await ask(address, 36, fields).catch(() => null);
    const isSentBack = answer?.code === 0;
    if (!config.ordered) {
      const error = isSentBack ? null : 'the broker has not said that it has a copy';
      const refusal = isSentBack ? {} : { code: answer?.code ?? null };
      const report = { ...where, messages: [[message[0], message[1], message[4]]], ...refusal };
      say({ emit: 'send_back', type: isSentBack ? 'ok' : 'info', value: report, error });
    }
    if (isSentBack) return true;
    await sleep((config.suspend_s ?? 1) * 1000);
    if (leaving || !(await isMine())) return false;
    message = value.messages[0] = [...message.slice(0, 4), message[4] + 1];
  }
}

// ---- the line protocol

async function answerTo({ f, ...request }) {
  const isProducer = process.argv[2] === 'producer';
  if (isProducer && f === 'open') return { type: 'ok' };
  if (isProducer && f === 'send') return send(request);
  if (!isProducer && f === 'listener_counters') return { type: 'ok', value: counters };
  if (!isProducer && f === 'slow_listener') return (listener.delay_s = request.delay_s), { type: 'ok' };
  if (!isProducer && f === 'failing_listener') return Object.assign(listener, { tries: 0, delay_level: 0 }, request), { type: 'ok' };
  return { type: 'fail', error: `it cannot do ${f}` };
}

async function leave() {
  leaving = true;
  await Promise.all([...owned.values()].map((each) => each.loop));
  const masters = new Set([...owned.values()].map((each) => each.address));
  const member = { clientID: config.client_id, consumerGroup: config.group };
  await Promise.all([...masters].map((address) => ask(address, 35, member).catch(() => {})));
  process.exit(0);
}

async function main() {
  let lines = Promise.resolve();
  require('readline').createInterface({ input: process.stdin }).on('line', (line) => {
    if (config) return (lines = lines.then(async () => {
      const request = JSON.parse(line);
      say({ id: request.id, value: {}, ...(await answerTo(request)) });
    }));
    config = JSON.parse(line);
    retryTopic = `%RETRY%${config.group}`;
    listener = { delay_s: config.delay_s ?? 0, share: config.failing_share ?? 0, tries: config.failing_tries ?? 0,
      delay_level: config.delay_level ?? 0 };
    const cannot = ['broadcast', 'forward_to', 'condensed', 'credentials', 'tls_config'].filter((name) => config[name]);
    if (cannot.length) return say({ emit: 'open', type: 'fail', value: {}, error: `it cannot do ${cannot}` }), process.exit(0);
    say({ emit: 'open', type: 'ok', value: {} });
    const look = () => leaving || shareOut().catch(() => {}).then(() => setTimeout(look, 1000));
    if (process.argv[2] === 'consumer') look();
  }).on('close', () => lines.then(leave));
  process.on('SIGTERM', leave);
}

main();
