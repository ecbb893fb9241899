// Replays captured requests with k6: warm-up, then hold, at a constant arrival rate. Runs unchanged on k6 1.1 and 2.x.
//
// The launcher (replay/k6.py, replay/chunks.py) names a JSON file in REPLAY_CONFIG. It holds the rates and times and the
// paths of the chunks: CommonJS modules of text constants, which k6 compiles once and shares among all virtual users, with
// one record of fixed width for each request. Only GET is ever sent, and only to the configured target.
import http from 'k6/http';
import exec from 'k6/execution';
import { Gauge, Rate } from 'k6/metrics';

const config = JSON.parse(open(__ENV.REPLAY_CONFIG));
const chunks = config.chunks.map((path) => require(path));
const tokens = require(config.tokens).tokens;
const { target, rows, request_timeout_ms: timeout } = config;
const { chunk_rows: chunkRows, warmup_from: warmupFrom, lengths_below: lengthsBelow } = config;
const [uriAt, tokenAt, kindAt, recordWidth] = config.field_starts;

const holdStart = new Gauge('hold_start');
const graphqlErrors = config.graphql ? new Rate('graphql_errors') : null;

const arrivals = {
  executor: 'constant-arrival-rate',
  rate: config.rate_per_s,
  timeUnit: '1s',
  preAllocatedVUs: config.vus,
  maxVUs: config.vus,
};

export const options = {
  scenarios: {
    warmup: { ...arrivals, exec: 'warmup', duration: `${config.warmup_s}s`, gracefulStop: `${config.drain_ms}ms` },
    hold: {
      ...arrivals,
      exec: 'hold',
      startTime: `${config.warmup_s * 1000 + config.drain_ms}ms`,
      duration: `${config.hold_s}s`,
      gracefulStop: `${timeout}ms`,
    },
  },
  discardResponseBodies: !config.graphql,
  maxRedirects: 0,
};

// One object a virtual user: making it anew costs more than all else that an iteration does here. Its values follow the
// scenario that the user works for (js/modules/k6/execution in k6).
let scenario;

// The parameters of each kind of request, one object a virtual user as well: new ones would be a fifth of all garbage. Only
// the token changes, and a kind without one never gets any.
const paramsOfKinds = config.kinds.map(({ route, accept_encoding: encoding }) => {
  const headers = { 'X-Load-Test': 'perf_pipeline' };
  if (encoding !== '') {
    headers['Accept-Encoding'] = encoding;
  }
  return { headers, tags: { name: route }, timeout };
});

export function warmup() {
  scenario ??= exec.scenario;
  send((warmupFrom + scenario.iterationInTest) % rows);
}

export function hold() {
  scenario ??= exec.scenario;
  const iteration = scenario.iterationInTest;
  if (iteration === 0) {
    holdStart.add(scenario.startTime);
    console.log(`hold_start=${scenario.startTime}`);
  }
  const response = send(iteration % rows);
  if (graphqlErrors !== null && response.status > 0) {
    graphqlErrors.add(carriesErrors(response.body));
  }
}

// A call of substring costs more than all arithmetic on what it returns, so that a place is one number: start and length.
function send(row) {
  const inChunk = row % chunkRows;
  const { index, uris } = chunks[(row - inChunk) / chunkRows];
  const at = inChunk * recordWidth;
  const uri = +index.substring(at + uriAt, at + tokenAt);
  const token = +index.substring(at + tokenAt, at + kindAt);
  const params = paramsOfKinds[+index.substring(at + kindAt, at + recordWidth)];
  if (token > 0) {
    const tokenLength = token % lengthsBelow;
    const tokenFrom = (token - tokenLength) / lengthsBelow;
    params.headers.Authorization = tokens.substring(tokenFrom, tokenFrom + tokenLength);
  }
  const uriLength = uri % lengthsBelow;
  const uriFrom = (uri - uriLength) / lengthsBelow;
  return http.get(target + uris.substring(uriFrom, uriFrom + uriLength), params);
}

// Whether a GraphQL answer carries an errors array, in a JSON body or in any part of a multipart one. A field of that name
// inside `data` is no error, so the text alone does not tell.
function carriesErrors(body) {
  if (typeof body !== 'string' || !body.includes('"errors"')) {
    return false;
  }
  return jsonTexts(body).some((text) => {
    try {
      const answer = JSON.parse(text);
      const payloads = [answer, ...(answer.incremental || [])];
      return payloads.some((payload) => Array.isArray(payload.errors) && payload.errors.length > 0);
    } catch (error) {
      return false;
    }
  });
}

function jsonTexts(body) {
  if (!body.trimStart().startsWith('--')) {
    return [body];
  }
  return body.split(/\r?\n--[^\r\n]*/).map((part) => part.substring(part.indexOf('{')));
}
