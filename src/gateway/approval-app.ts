/**
 * The view of a call that waits for approval, for hosts with MCP Apps (extension `io.modelcontextprotocol/ui`, 2026-01-26): what
 * the call would change, and buttons that decide on it by the tool `decide_approval`, through the host.
 *
 * Invariant: texts of others are only ever set as text, with their invisible characters made visible. Nothing is loaded, and nothing
 * is decided but by a person who uses a button.
 */
import { self } from '../core/identity.ts'

/** Names the view in tools and resources. */
export const APPROVAL_APP_URI = 'ui://gatehouse/approval'

const MIME_TYPE = 'text/html;profile=mcp-app'

/** The revision of the extension that the view speaks. */
const PROTOCOL_VERSION = '2026-01-26'

const style = `
:root{color-scheme:light dark;--text:#1d232b;--dim:#5b6470;--line:#d5dae0;--back:#fff;--plus:#0b6b2e;--minus:#a3201b;--main:#1f4fbf}
:root[data-theme=dark]{color-scheme:dark;--text:#e6e9ee;--dim:#a2abb7;--line:#3a424d;--back:#171b21;--plus:#62c584;--minus:#f08a84;--main:#8fb0ff}
:root[data-theme=light]{color-scheme:light}
@media (prefers-color-scheme:dark){:root:not([data-theme]){--text:#e6e9ee;--dim:#a2abb7;--line:#3a424d;--back:#171b21;--plus:#62c584;--minus:#f08a84;--main:#8fb0ff}}
*{box-sizing:border-box}
body{margin:0;padding:1rem;font:14px/1.5 system-ui,sans-serif;color:var(--text);background:var(--back);overflow-wrap:anywhere}
h1{font-size:1.1rem;margin:0 0 .5rem}h2{font-size:.95rem;margin:1rem 0 .25rem}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem .75rem;margin:0}dt{color:var(--dim)}dd{margin:0}
dd,h1,h2,p,pre,li{unicode-bidi:plaintext}
pre{margin:0;padding:.5rem;border:1px solid var(--line);border-radius:6px;white-space:pre-wrap;font:12px/1.5 ui-monospace,monospace;max-height:20rem;overflow:auto}
.plus{color:var(--plus)}.minus{color:var(--minus)}
label{display:block;margin:.75rem 0 .25rem}
input{width:100%;padding:.4rem .5rem;font:inherit;color:inherit;background:transparent;border:1px solid var(--line);border-radius:6px}
.buttons{display:flex;gap:.5rem;margin-top:.75rem;flex-wrap:wrap}
button{font:inherit;padding:.4rem .9rem;border-radius:6px;border:1px solid var(--line);background:transparent;color:inherit;cursor:pointer}
button.approve{border-color:var(--main);color:var(--main);font-weight:600}button:disabled{opacity:.5;cursor:default}
:focus-visible{outline:2px solid var(--main);outline-offset:2px}
[hidden]{display:none!important}
`

const content = `<main>
<h1 id="message">Waiting for the call…</h1>
<p id="status" role="status"></p>
<section id="call" hidden>
<dl id="facts"></dl>
<section id="change" hidden><h2 id="change-title"></h2><ul id="change-notes"></ul><pre id="change-lines" tabindex="0"></pre></section>
<h2 id="arguments-title">Arguments</h2><pre id="arguments" tabindex="0" aria-labelledby="arguments-title"></pre>
<section id="data" hidden><h2>Data that the arguments refer to</h2><p>The server receives this data in place of the references. The approval is for this data alone.</p><ul id="data-items"></ul></section>
<section id="sent" hidden><h2 id="sent-title">Arguments as sent</h2><p>The server receives this text. It differs from the values above: numbers with more digits, or duplicate keys.</p><pre id="sent-text" tabindex="0" aria-labelledby="sent-title"></pre></section>
<form id="form" hidden>
<div id="typing" hidden><label for="typed" id="typed-label"></label><input id="typed" autocomplete="off" spellcheck="false"></div>
<label for="reason">Reason (optional)</label><input id="reason" maxlength="1000" autocomplete="off">
<div class="buttons"><button type="button" class="approve" id="approve">Approve</button><button type="button" id="deny">Deny</button></div>
</form>
</section>
</main>`

/** Runs in the view. The host is the only window that it listens and speaks to. */
const script = `
'use strict';
(() => {
const host = window.parent, waiting = new Map();
let last = 0, shown, busy = false;
const by = (id) => document.getElementById(id);
const hidden = /[\\p{C}\\p{Zl}\\p{Zp}\\p{DI}\\u2800]|(?! )\\p{Zs}/gu;
const mark = (each) => each === '\\n' ? each : [...Array(each.length).keys()].map((at) => '\\\\u' + each.charCodeAt(at).toString(16).padStart(4, '0')).join('');
const visible = (value) => String(value).replace(hidden, mark);
const put = (id, value) => { by(id).textContent = visible(value); };
const text = (value) => typeof value === 'string' ? value : undefined;
const send = (message) => host.postMessage({ jsonrpc: '2.0', ...message }, '*');
const ask = (method, params) => new Promise((resolve, reject) => {
  const id = ++last;
  waiting.set(id, { resolve, reject });
  send({ id, method, params });
});
const resized = () => send({ method: 'ui/notifications/size-changed', params: { height: Math.ceil(document.documentElement.getBoundingClientRect().height) } });

function approvalIn(result) {
  if (!result || typeof result !== 'object' || result.isError) return undefined;
  if (result.structuredContent && typeof result.structuredContent === 'object') return result.structuredContent;
  try { return JSON.parse(result.content.at(-1).text); } catch { return undefined; }
}
function problemIn(result) {
  const first = result && Array.isArray(result.content) ? result.content[0] : undefined;
  return text(first && first.text) || 'The gateway refused.';
}
function fact(name, value) {
  if (value === undefined) return;
  const term = document.createElement('dt'), about = document.createElement('dd');
  term.textContent = name;
  about.textContent = visible(value);
  by('facts').append(term, about);
}
function fill(id, lines) {
  by(id).replaceChildren(...lines.map((line) => {
    const item = document.createElement('li');
    item.textContent = visible(line);
    return item;
  }));
}
function showChange({ change, change_title: title, change_notes: notes }) {
  const lines = change && Array.isArray(change.lines) ? change.lines : undefined;
  by('change').hidden = !lines;
  if (!lines) return;
  put('change-title', title || 'What would change');
  fill('change-notes', Array.isArray(notes) ? notes : []);
  by('change-lines').hidden = lines.length === 0;
  by('change-lines').replaceChildren(...lines.map((line) => {
    const row = document.createElement('div');
    row.textContent = visible(line);
    if (change.kind === 'difference' && /^[+-]/.test(line)) row.className = line[0] === '+' ? 'plus' : 'minus';
    return row;
  }));
}
function show(approval) {
  if (!approval || text(approval.id) === undefined) return;
  shown = { ...(shown && shown.id === approval.id ? shown : {}), ...approval };
  put('message', shown.message || 'A call waits for approval');
  by('facts').replaceChildren();
  fact('Tool', text(shown.tool));
  fact('Server', text(shown.server));
  fact('Called by', text(shown.caller));
  if (text(shown.client) !== undefined) fact('With', shown.client + ', by its own account');
  fact('Risk', text(shown.risk));
  fact('Expires', text(shown.expires_at));
  if (shown.needed > 1) fact('Approvals', shown.approved + ' of ' + shown.needed);
  fact('Status', text(shown.status));
  if (text(shown.runs) !== undefined) fact('Runs', shown.runs);
  showChange(shown);
  put('arguments', text(shown.arguments_text) ?? JSON.stringify(shown.arguments ?? {}, null, 2));
  const data = Array.isArray(shown.references) ? shown.references : [];
  by('data').hidden = data.length === 0;
  fill('data-items', data.map(({ path, name, type, size, sha256, written }) => (path === '' ? 'All arguments' : path) + ': ' + name + ' (' + type + ', ' + size + ' bytes), SHA-256 ' + sha256 + ', as ' + written));
  by('sent').hidden = text(shown.sent_text) === undefined;
  put('sent-text', text(shown.sent_text) ?? '');
  const decidable = shown.status === 'pending' && shown.may_decide === true;
  by('call').hidden = false;
  by('form').hidden = !decidable;
  by('typing').hidden = text(shown.typed) === undefined;
  put('typed-label', 'To approve, type: ' + (text(shown.typed) ?? ''));
  by('approve').disabled = busy || shown.is_cut === true;
  by('deny').disabled = busy;
  if (shown.status !== 'pending') put('status', { approved: 'Approved.', denied: 'Denied.', used: 'Approved and used.', void: 'The data of the call has changed.' }[shown.status] ?? '');
  else if (!decidable) put('status', text(shown.why_not) ?? 'You may not decide on this call.');
  else if (shown.is_cut === true) put('status', 'The call is too long to be shown here: approve it on its page, or deny it.');
  else put('status', '');
  resized();
}
async function decide(event, verdict) {
  if (!event.isTrusted || busy || !shown) return;
  busy = true;
  show(shown);
  put('status', 'Deciding…');
  const given = { id: shown.id, verdict };
  const reason = by('reason').value.trim();
  if (reason !== '') given.reason = reason;
  if (verdict === 'approved' && text(shown.typed) !== undefined) given.typed = by('typed').value;
  let problem;
  try {
    const result = await ask('tools/call', { name: 'decide_approval', arguments: given });
    const after = approvalIn(result);
    if (after) shown = { ...shown, ...after };
    else problem = problemIn(result);
  } catch (error) {
    problem = text(error && error.message) ?? 'The host did not make the call.';
  }
  busy = false;
  show(shown);
  if (problem !== undefined) put('status', problem);
}
function received(message) {
  const { id, method, params } = message;
  if (method === undefined) {
    const asked = waiting.get(id);
    waiting.delete(id);
    if (asked) message.error ? asked.reject(message.error) : asked.resolve(message.result);
    return;
  }
  if (id !== undefined) {
    const known = method === 'ping' || method === 'ui/resource-teardown';
    return send(known ? { id, result: {} } : { id, error: { code: -32601, message: 'Method not found' } });
  }
  if (method === 'ui/notifications/tool-result') {
    const approval = approvalIn(params);
    if (approval) show(approval);
    else put('status', problemIn(params));
  }
  if (method === 'ui/notifications/tool-cancelled') put('status', 'The host cancelled the call.');
  if (method === 'ui/notifications/host-context-changed') themed(params);
}
function themed(context) {
  const theme = context && context.theme;
  if (theme === 'dark' || theme === 'light') document.documentElement.dataset.theme = theme;
}
window.addEventListener('message', (event) => {
  if (event.source !== host || !event.data || event.data.jsonrpc !== '2.0') return;
  received(event.data);
});
by('form').addEventListener('submit', (event) => event.preventDefault());
by('approve').addEventListener('click', (event) => void decide(event, 'approved'));
by('deny').addEventListener('click', (event) => void decide(event, 'denied'));
new ResizeObserver(resized).observe(document.documentElement);
ask('ui/initialize', {
  appInfo: { name: 'gatehouse-approval', version: '${self.version}' },
  appCapabilities: {},
  protocolVersion: '${PROTOCOL_VERSION}',
}).then((result) => {
  themed(result && result.hostContext);
  send({ method: 'ui/notifications/initialized', params: {} });
}, () => put('status', 'The host does not speak MCP Apps.'));
})();
`

/** The view in the list of resources. */
export const approvalAppEntry = {
  uri: APPROVAL_APP_URI,
  name: 'approval',
  title: 'A call that waits for approval',
  description: 'Shows what a call would change, and lets a person approve or deny it.',
  mimeType: MIME_TYPE,
  _meta: { ui: { prefersBorder: true } },
}

/** Its content. It needs no other origin, so the host's policy for content without any may apply. */
export const approvalApp = {
  uri: APPROVAL_APP_URI,
  mimeType: MIME_TYPE,
  text: `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Approval</title>
<style>${style}</style>
</head>
<body>
${content}
<script>${script}</script>
</body>
</html>
`,
  _meta: { ui: { csp: {}, prefersBorder: true } },
}
