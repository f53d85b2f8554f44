/**
 * All commands as values: their options, arguments and texts. They are apart from what the commands do, which is loaded when one
 * runs (`run.ts`): help, completion and the manual load this file alone. The types of the options are those of `command.ts`.
 */
import {
  anyServer,
  argument,
  choice,
  defineCommand,
  duration,
  flag,
  number,
  numberOr,
  oneOf,
  oneServer,
  optional,
  required,
  rest,
  serverCommand,
  text,
  texts,
  time,
} from './command.ts'

// Options that several commands have.

const config = {
  config: text('FILE', 'the configuration (default: gateway.config.yaml)', { short: 'c', isCommon: true }),
  'env-file': text('FILE', 'variables of the configuration that are not set (default: .env beside it)', {
    isCommon: true,
  }),
}
const json = { json: flag('print JSON', { isCommon: true }) }
const storeFolder = {
  store: text('FOLDER', 'the store of a gateway without a configuration file', { isCommon: true }),
}
const levels = ['debug', 'info', 'warn', 'error'] as const
const logLevel = {
  'log-level': { ...oneOf('LEVEL', levels, 'the least level that is logged'), isCommon: true },
}
const ofConfig = { ...config, ...json }
const ofStore = { ...config, ...storeFolder, ...json }
const ofServer = { ...ofConfig, ...logLevel }
const port = (about: string) => ({ port: { ...number(about, { most: 65_535 }), short: 'p' } })
const host = { host: text('H', 'address to listen on (default 127.0.0.1)') }
const output = (about: string) => ({ output: text('FILE', about, { short: 'o' }) })
const force = (about: string) => ({ force: flag(about) })
const junit = { junit: text('FILE', 'also write the report as JUnit XML') }
const token = {
  'gateway-key': text(
    'KEY',
    `the URL is a Gatehouse with this key, which it prints at startup and proves when connected; features that both gateways
    have on, such as confirmation, are left to that gateway; auto accepts the key of any Gatehouse at a URL that is https:// or
    on this machine`,
    { dashed: /^-[\w-]{42}$/ },
  ),
  'token-env': text('NAME', 'send the bearer token in this environment variable to the URL'),
  'token-file': text('FILE', 'send the bearer token in this file to the URL'),
}
const connectedClient = rest('CLIENT', 'a client; all with servers by default')
const served = {
  servers: { ...rest('URL', 'the URL of a server'), usage: '[URL | -- COMMAND…]' },
  command: serverCommand,
}
const principal = (about: string) => ({ principal: text('ID', about) })
const overwrite = force('undo also what something else changed since, and overwrite that change')
const reason = (what: string) => ({ reason: text('TEXT', `the reason, recorded with the ${what}`) })
const planning = {
  'skip-plan': flag('do not start the imported servers, which is done to add undo rules for their tools'),
}
const yes = (about: string) => ({ yes: flag(about, { short: 'y' }) })

// What several commands of a group have.

const approval = {
  arguments: { id: argument('ID', 'the id of an approval') },
  hint: 'give one approval at a time',
}
const transaction = {
  arguments: { id: argument('ID', 'the id of a transaction') },
  hint: 'give one transaction at a time',
}
const ofTransactions = {
  ...principal('only transactions of this caller: callers choose the ids, so they need not be unique'),
  ...ofConfig,
}
const operation = {
  arguments: { name: argument('NAME', 'the name of an operation', { dashed: /^-[\w-]{15}$/ }) },
  options: ofStore,
  hint: 'give one operation at a time',
}
const ofSubscriptions = {
  ...principal('only subscriptions of this caller: callers choose some ids, so they need not be unique'),
  ...ofStore,
}
const reference = { arguments: { id: argument('ID', 'the id of a reference') } }
const ofReferences = {
  ...principal(
    `the caller: callers choose some ids, so they need not be unique. Also the first 6 or more characters of its hash, except for
    put. put keeps data for everybody where callers are not authenticated`,
  ),
  ...ofStore,
}

export const commands = {
  serve: defineCommand({
    summary: 'serve the servers of a configuration over HTTP',
    about: `All servers are at /mcp, each at /mcp/<server>. A changed configuration file, or file of its variables (.env), is reloaded;
    a file with mistakes is rejected and the previous settings stay in effect.`,
    arguments: served,
    options: {
      ...host,
      ...port('port to listen on, 0 for any free port (default 8900)'),
      workers: numberOr('auto', 'how many processes serve, auto for one for each core (default 1)', {
        least: 1,
        most: 64,
      }),
      ...token,
      ...config,
      ...logLevel,
    },
    examples: {
      'serve -- COMMAND [ARG…]': 'serve one server, started as a child process',
      'serve https://host/mcp': 'serve one server, reached over HTTP',
    },
  }),
  stdio: defineCommand({
    summary: 'run as a stdio MCP server in front of the configured servers',
    about: `For clients that start their servers. The client needs no token; \`auth.principal\` in the configuration sets its identity
    and scopes.`,
    arguments: served,
    options: { ...token, ...config, ...logLevel },
  }),
  check: defineCommand({
    summary: 'report every problem in a configuration',
    about:
      'Reads the configuration, connects to each server and reports every problem, with file, line and column.',
    arguments: served,
    options: { ...token, ...ofServer },
  }),
  explain: defineCommand({
    summary: 'show how the gateway handles a call, and why',
    about: `Prints how a server is reached, its protocol revision, and the features that a call passes through. For each tool, prints
    its effect, whether confirmation is required, and how it is undone; for a named tool, also why.`,
    arguments: { server: oneServer, tool: optional('TOOL', 'a tool of the server') },
    options: ofServer,
    hint: 'give one tool, or none',
  }),
  call: defineCommand({
    summary: 'call a tool, or try the call with --dry-run',
    about: `Calls a tool through a gateway in this process, with the features of the configuration, and prints the result. The store
    and the audit log are those of running gateways, so an idempotency key is the same for both.

    The arguments are a JSON object, KEY=VALUE words, the JSON in a file (@FILE), or JSON on standard input (-). A VALUE is text
    where the schema of the tool says so, and JSON elsewhere if it can be read as JSON.

    A confirmation is asked for in the terminal; without one, the call is refused unless --yes is given.`,
    arguments: {
      server: oneServer,
      tool: argument('TOOL', 'a tool'),
      words: rest('ARGUMENT', 'an argument of the tool'),
    },
    options: {
      'dry-run': flag('only say what the call would do: the server is not called, and nothing is kept'),
      key: text('KEY', 'the idempotency key of the call'),
      ...yes('confirm the call'),
      ...ofConfig,
    },
    exitCodes: '0 success, 1 the result is an error, or the call failed, 2 wrong usage',
    page: 'dry-runs.md#calling-a-tool-from-the-command-line',
  }),
  plan: defineCommand({
    summary: 'propose undo rules for tools, as settings to paste',
    about: `Reads the tool lists of servers, without calling a tool, and prints undo rules as YAML to paste into the configuration: a
    tool that does the opposite, or restoring what was read before the call. Comments give the reasons. A tool that cannot be
    undone is proposed as a pivot, with a confirmation message. What a pack has proved about exactly this definition of a tool
    comes before what its name and schemas suggest.`,
    arguments: { server: anyServer },
    options: {
      pack: texts('FILE', 'use a pack of gatehouse prove; several are possible'),
      write: flag(
        `add the certain proposals to the configuration file, with their reasons as comments; existing content is kept`,
      ),
      ...ofServer,
    },
    hint: 'name one server, or none for all',
  }),
  prove: defineCommand({
    summary: 'try undo, idempotency and verify of tools with real calls',
    about: `Calls the tools of a server that do not only read, for real, and prints what is proved about each: that its undo restores
    the state (undo), that two calls with one idempotency key have one effect (once), that its verify is right (verify), and
    that a repeated call has no further effect (idempotent). No call has an argument that looks like a place outside of the
    sandbox.`,
    arguments: { server: oneServer },
    options: {
      sandbox: {
        ...texts(
          'PLACE',
          `a folder; an argument and its value, such as repo=scratch, or key=test:* for all values that begin like this; or "server"
        if the whole server is there for tests. Several are possible`,
        ),
        isRequired: true,
      },
      tool: texts('NAME', 'only this tool; several are possible'),
      arguments: text(
        'FILE',
        'a JSON file with the arguments of tools, and the calls before them: docs/proofs.md describes it',
      ),
      ...output('write what is proved to a pack, for gatehouse plan --pack'),
      ...force('replace the file of -o'),
      ...junit,
      ...ofConfig,
    },
    exitCodes: '0 nothing was refuted, 1 something was',
    hint: 'give one server',
    page: 'proofs.md',
  }),
  skill: defineCommand({
    summary: 'print the SKILL.md of a server, for agents that load skills',
    about: `Prints the SKILL.md of a server, or of all servers together: when to use it, its tools, how to reach it, and its rules. A
    running gateway serves the same at /skills/SERVER/SKILL.md and as MCP skills and resources.`,
    arguments: { server: anyServer },
    options: ofServer,
    hint: 'give one server, or none',
  }),
  'export registry': defineCommand({
    summary:
      'print the registry entry of a server as JSON: name, description, installation, and alternatives',
    arguments: { server: anyServer },
    options: ofServer,
    hint: 'give one server, or none',
  }),
  lint: defineCommand({
    summary: 'check a server against the corporate profile',
    about: `Reads what a server offers, without calling a tool, and prints for each rule of the corporate profile whether the server
    complies, the gateway complies for it, or the rule is broken, where, and how to fix it.`,
    arguments: { server: argument('SERVER', 'a server of the configuration') },
    options: {
      strict: flag('exit with 1 if a MUST or MUST NOT rule is broken'),
      fix: flag(
        'print, for each tool that clients or providers refuse, the JSON Patch (RFC 6902) that repairs its entry',
      ),
      for: oneOf(
        'PROVIDER',
        ['openai', 'anthropic', 'gemini', 'any'],
        'the same by the rules of one provider, or of any: also what is valid, and that provider does not take',
      ),
      ...ofServer,
    },
    hint: 'give one server of the configuration',
  }),
  test: defineCommand({
    summary: 'test servers with calls generated from their schemas',
    about: `Tests a server as it is, with no feature of the gateway between: its lists, prompts and resources, messages that are not
    valid, and calls of its tools generated from their input schemas: valid, at the limits, of wrong types, incomplete,
    hostile. Prints what fails, a score from 0 to 100, and of how many tools a valid call succeeded: of the others the score
    says little. Only calls that read are made, judged by name, description, arguments and annotations. Example calls of the
    configuration, and of the server, have to give the output that they show.

    --all tests every server of the configuration, several at once, and prints a table of scores. Without a server and without
    --all, prints which tools would be called, and asks before it tests. Servers that cannot be tested, such as those for which
    each user has credentials, have no score.

    A running gateway with the same store shows the scores and their history at /conformance.`,
    arguments: { server: anyServer },
    options: {
      all: flag('all servers; each has at most twice the time of --max-time, with its start'),
      jobs: number('how many servers are tested at once (default: two for each core, 4 to 16)', {
        least: 1,
        most: 64,
      }),
      tool: texts('NAME', 'call only this tool; may be repeated'),
      'allow-writes': flag(
        `also call tools that may change something, if their undo is exact, and configured or proved: each call is a transaction
        that is rolled back`,
      ),
      sandbox: texts(
        'PLACE',
        `also call tools that may change something, in a sandbox, as gatehouse prove does: a folder; an argument and its value,
        such as repo=scratch; "server" if the whole server is there for tests; or "copy" for throw-away copies of the folders
        and files that the command of each server, and its variables, name. Several are possible, but not with --allow-writes`,
      ),
      watch: flag('test again when the configuration, or a file of the command of a server, changes'),
      seed: number('the choice of cases (default 1): the same number makes the same calls', {
        most: 999_999_999,
      }),
      timeout: duration(
        'how long a response may take (default 10s); three times as long where progress is reported',
        '500ms, 10s or 2m',
      ),
      'max-time': duration(
        'how long the calls of tools that read may take together (default 100s); the rest is left out',
        '500ms, 10s or 2m',
      ),
      junit: text('FILE', 'also write JUnit XML: a suite for each server, with its score'),
      ...ofConfig,
    },
    hint: 'give one server, or --all',
    exitCodes: `0 no check failed, 1 a check failed or could not be carried out, or the answer was no, 2 wrong usage`,
    page: 'server-tests.md',
  }),
  init: defineCommand({
    summary: 'write a configuration, or import that of a client',
    about: `With --from, imports the servers of a client's configuration, such as claude_desktop_config.json, .mcp.json,
    .cursor/mcp.json, .vscode/mcp.json or ~/.codex/config.toml; several are merged. Secrets become \${VARIABLES} with their
    values in .env beside it. What cannot be imported is printed. Then the servers are started, and undo rules of their tools are
    added where they are certain.`,
    options: {
      from: texts('FILE', 'the configuration of a client'),
      ...force('overwrite an existing file'),
      ...planning,
      config: text('FILE', 'the file to write (default: gateway.config.yaml)', { short: 'c' }),
      'env-file': { ...config['env-file'], isIgnored: true },
    },
    hint: 'init takes no arguments; import a file with --from FILE',
    page: 'importing.md',
  }),
  lock: defineCommand({
    summary: 'record what all servers list in gatehouse.lock',
    about: `Writes, for each tool of each server, the hash of its definition, how it is judged, its scopes, what was proved, its
    description and its arguments, to gatehouse.lock beside the configuration, which belongs into version control. With --check,
    compares it with the servers, and prints what is new, gone or changed.`,
    options: { check: flag('compare, and write nothing'), ...ofServer },
    exitCodes: '1 if something differs with --check, or a server cannot be read',
    page: 'operating.md#locking-definitions',
  }),
  accept: defineCommand({
    summary: 'accept changed tools, which are then as in gatehouse.lock',
    about: `Shows how the tools of all servers, of one server, or single tools differ from gatehouse.lock beside the configuration,
    asks, and writes what they are now to that file. A running gateway with \`pin\` reads it again, and offers tools that it held.`,
    arguments: {
      server: optional('SERVER', 'a server of the configuration; all by default'),
      tools: rest('TOOL', 'a tool of the server; all by default'),
    },
    options: { ...yes('accept without asking'), ...ofServer },
    exitCodes: '1 if the answer is no, a server cannot be read, or a tool is unknown',
    examples: {
      accept: 'shows what changed, and asks',
      'accept github create_issue': 'accepts one tool',
    },
    page: 'operating.md#tools-that-change',
  }),
  doctor: defineCommand({
    summary: 'find out why a server cannot be used',
    about: `Connects step by step: name, TCP, TLS, metadata of OAuth, authentication, version, first list, one read; for a server that
    is started, its command in place of the first ones. Prints the step that failed, and what to do.`,
    arguments: { server: anyServer },
    options: { ...token, ...ofServer },
    exitCodes: '1 if a step failed',
    page: 'troubleshooting.md',
  }),
  connect: defineCommand({
    summary: 'put the servers of MCP clients behind the gateway',
    about: `Finds the configuration of Claude Code, Claude Desktop, Cursor, VS Code, Codex, Gemini CLI, Zed, opencode, Goose and
    Windsurf, in this folder and of this user, moves its servers into gateway.config.yaml, and leaves one entry for the gateway.
    It prints what it would change, and asks. Secrets are moved to .env beside the configuration; a copy of each changed file is
    beside it. Then it starts the servers, reads their tools, and adds undo rules where they are certain.`,
    arguments: { client: connectedClient },
    options: {
      ask: oneOf(
        'WHO',
        ['both', 'gateway'],
        'who asks before calls: the client and the gateway, or the gateway alone, with clients configured not to ask (default: as clients are configured)',
      ),
      via: oneOf(
        'HOW',
        ['url', 'command'],
        'how clients reach the gateway: with command, each starts its own (default: url)',
      ),
      ...yes('change the files without asking'),
      ...planning,
      config: text('FILE', 'the configuration of the gateway (default: gateway.config.yaml)', { short: 'c' }),
      ...json,
    },
    examples: {
      connect: 'shows what would change for all clients',
      'connect cursor --ask gateway': 'asks once, in the gateway',
      'connect cursor --ask both': 'configures Cursor to ask again',
    },
    page: 'importing.md',
  }),
  disconnect: defineCommand({
    summary: 'give MCP clients their own servers back',
    arguments: { client: connectedClient },
    options: { ...yes('change the files without asking'), ...json },
    page: 'importing.md',
  }),
  'approvals list': defineCommand({
    summary: 'list the calls that wait for approval',
    options: ofStore,
    hint: approval.hint,
  }),
  'approvals show': defineCommand({
    ...approval,
    summary: 'print one call and its arguments',
    options: ofStore,
  }),
  'approvals approve': defineCommand({
    ...approval,
    summary: 'let a call run',
    options: {
      ...reason('decision'),
      typed: text('TEXT', 'the text that must be typed to approve, where the call requires it'),
      remember: flag('do not ask again about this tool in the session of the caller, where that is offered'),
      ...ofStore,
    },
  }),
  'approvals deny': defineCommand({
    ...approval,
    summary: 'refuse a call',
    options: { ...reason('decision'), ...ofStore },
  }),
  'approvals test': defineCommand({
    summary: 'send a test message by the channels of the configuration',
    about: `Tries the channels under notify, which tell people which calls wait: all of them, or one. Prints for each whether the message
    was accepted, or why not. No gateway needs to run.`,
    arguments: { channel: optional('CHANNEL', 'the name of a channel') },
    options: ofConfig,
    exitCodes: '0 all messages were accepted, 1 at least one was not',
    page: 'notifications.md',
  }),
  pause: defineCommand({
    summary: 'stop all calls that may change something, or say whether they are stopped',
    about: `Pauses writes for all gateways of the store, and returns once they know it: every call of a tool that is not known to
    read is refused with WRITES_PAUSED, until writes are resumed, or the time of --for has passed. Calls that were sent before finish;
    undoing and rolling back go on. A second pause makes the first one no shorter.`,
    options: {
      ...reason('pause; callers are told it'),
      for: duration('resume by itself after this time', '30m or 2h'),
      status: flag('only print whether writes are paused, since when, by whom and why'),
      ...ofStore,
    },
    hint: 'pause takes no arguments; give a reason with --reason',
    examples: {
      'pause --reason "restoring the database" --for 2h': 'stops writes for two hours at most',
      'pause --status': 'says whether writes are paused',
    },
    page: 'operating.md#pausing-writes',
  }),
  resume: defineCommand({
    summary: 'end a pause of writes',
    about: `Returns once all gateways of the store know it.`,
    options: ofStore,
    hint: 'resume takes no arguments',
    page: 'operating.md#pausing-writes',
  }),
  'fleet list': defineCommand({
    summary: 'list the gateways: host, process, version, whether they drain, and the address for the others',
    options: ofStore,
  }),
  'fleet drain': defineCommand({
    summary: 'have a gateway finish what it has, and end',
    about: `The gateway learns that within 3 s, and does the same as when it is stopped by SIGTERM: it is not ready any more, finishes the
    calls that it has, leaves its sessions to the other gateways, and its process ends with exit code 0. Returns once it has
    ended. What starts processes again, such as Kubernetes, starts a new one.`,
    arguments: { id: argument('ID', 'the id of a gateway') },
    options: ofStore,
    hint: 'give one gateway at a time',
    examples: { 'fleet drain 5f0c2a': 'ends the gateway whose id begins so' },
  }),
  'tx list': defineCommand({
    summary: 'list transactions, those that need attention first',
    options: ofTransactions,
    hint: transaction.hint,
  }),
  'tx show': defineCommand({
    ...transaction,
    summary: 'print one transaction and its steps',
    options: ofTransactions,
  }),
  'tx rollback': defineCommand({
    ...transaction,
    summary: 'roll back an open transaction',
    about: `Undoes the steps of an open transaction, the last one first. A step whose state something else changed since is left as
    it is, with the difference. With --force, such a step is undone too, also of a transaction that is rolled back in part.`,
    options: { ...reason('rollback'), ...overwrite, ...ofTransactions },
  }),
  'tx ack': defineCommand({
    ...transaction,
    summary: 'record that a transaction that needs attention has been handled',
    options: ofTransactions,
  }),
  'ops list': defineCommand({
    summary: 'list operations: running ones first, the newest last',
    options: operation.options,
    hint: operation.hint,
  }),
  'ops show': defineCommand({ ...operation, summary: 'print one operation' }),
  'ops cancel': defineCommand({ ...operation, summary: 'end a running operation' }),
  'events list': defineCommand({
    summary: 'list the types of events of servers',
    arguments: { server: optional('SERVER', 'a server of the configuration') },
    options: ofConfig,
  }),
  'events tail': defineCommand({
    summary: 'print the events in the store',
    arguments: { server: optional('SERVER', 'a server of the configuration') },
    options: {
      type: text('NAME', 'only events of this type; * stands for any text'),
      since: time('a duration such as 10m or 2h ago, or a time such as 2026-11-21T10:00Z'),
      follow: flag('go on with new events until interrupted', { short: 'f' }),
      ...ofStore,
    },
  }),
  'events subscriptions': defineCommand({
    summary: 'list subscriptions to events',
    options: ofSubscriptions,
    hint: 'use events subscriptions, or events subscriptions drop ID',
  }),
  'events subscriptions drop': defineCommand({
    summary: 'end a subscription',
    arguments: { id: argument('ID', 'the id of a subscription') },
    options: ofSubscriptions,
  }),
  'events dead-letters': defineCommand({
    summary: 'list the events that a webhook receiver refused or did not accept in time',
    arguments: { subscription: optional('SUBSCRIPTION', 'the id of a subscription') },
    options: ofStore,
  }),
  'events redeliver': defineCommand({
    summary: 'have dead letters delivered again',
    arguments: {
      subscription: optional('SUBSCRIPTION', 'the id of a subscription'),
      event: optional('EVENT', 'the id of an event'),
    },
    options: { all: flag('every dead letter'), ...ofStore },
  }),
  log: defineCommand({
    summary: 'print what was called: who, which tool, how it ended, how long it took',
    about: `The calls are those in the log of calls of the store, newest last. All words and conditions of the query must hold:
    tool:NAME, server:NAME, user:ID, client:TEXT, code:CODE, kind:write, method:NAME, id:ID and trace:ID, in which * stands for
    any text; status: is ok, failed, denied, asked, task or dry_run; since:1h, until:10m, duration>500ms and duration<2s. Other words
    are searched in all texts. A call is logged within a second after its end.`,
    arguments: {
      query: rest('QUERY', 'words and conditions such as tool:write_file status:denied since:1h'),
    },
    options: {
      show: text('ID', 'print everything that is known of the call with this request id'),
      limit: number('how many calls (default 50)', { most: 100_000 }),
      follow: flag('go on with new calls until interrupted', { short: 'f' }),
      ...ofStore,
    },
    page: 'console.md',
  }),
  forget: defineCommand({
    summary: 'erase what is kept of a person',
    about: `Lists by kind what the store and the audit logs have of a caller, and erases it after confirmation. Decisions for calls of
    others stay, with a placeholder for the person. In audit logs, lines that name the person become stubs, which keep the hash chain;
    a running gateway erases its own log within seconds. Nothing is erased while calls, operations or transactions of the person run,
    or an approval of somebody else that the person decided is not used.`,
    arguments: {
      person: argument('PERSON', 'the id of a caller as gatehouse log prints it, such as user:anna'),
    },
    options: {
      'dry-run': flag('only list what there is'),
      ...yes('do not ask for confirmation'),
      ...ofStore,
    },
    exitCodes: '0 everything was erased, 1 there is nothing, or something is left',
    page: 'operating.md',
  }),
  'refs list': defineCommand({
    summary: 'list kept data, with size, type, name, origin, caller and expiry',
    options: ofReferences,
  }),
  'refs show': defineCommand({ ...reference, summary: 'print the facts of one', options: ofReferences }),
  'refs get': defineCommand({
    ...reference,
    summary: 'save data, or write it to a program',
    options: { ...output('save to this file'), ...force('overwrite the file of -o'), ...ofReferences },
  }),
  'refs put': defineCommand({
    summary: 'keep a file, which the caller can use as ref://ID',
    arguments: { file: argument('FILE', 'a file') },
    options: {
      name: text('NAME', 'what the data is called (default: from the name of the file)'),
      type: text('TYPE', 'its media type (default: from its name)'),
      id: text('ID', 'the id (default: one that cannot be guessed)'),
      ttl: duration('how long it is kept, such as 2h (default: features.references.ttl)', '30m or 2h'),
      ...ofReferences,
    },
  }),
  'refs drop': defineCommand({
    ...reference,
    summary: 'delete data at once, even if a replay, a transaction or an undo needs it',
    options: ofReferences,
  }),
  record: defineCommand({
    summary: 'record what passes between a client and a server',
    about: `Runs as a stdio MCP server in front of one server, without features, and writes what passes to a file: requests, responses,
    notifications, and questions of the server with their answers. Secrets of the configuration, what looks like a secret, and
    what the rules of features.mask name are replaced by ***.`,
    arguments: { server: oneServer },
    options: {
      output: required(text('FILE', 'the recording; only its owner can read it', { short: 'o' })),
      ...port('serve over HTTP on this port instead, 0 for any free port'),
      ...force('replace an existing file'),
      ...config,
      ...logLevel,
    },
    hint: 'give one server',
    page: 'recordings.md',
  }),
  replay: defineCommand({
    summary: 'serve a recording in the place of its server, or make a test of it',
    about: `Serves a recording as a stdio MCP server, to clients of every revision. Requests are answered as in the recording, with the
    questions and notifications of the server; others fail and say what is nearest.`,
    arguments: { file: argument('FILE', 'one recording') },
    options: {
      ...port('serve over HTTP on this port instead, 0 for any free port'),
      ...host,
      list: flag('number the requests of the recording'),
      'to-test': text(
        'N',
        'write the request with this number as a test for vitest and @modelcontextprotocol/client',
      ),
      ...output('the file of the test; default: stdout'),
      json: flag('print the list of requests as JSON, one on each line', { isCommon: true }),
    },
    hint: 'give one recording',
    page: 'recordings.md',
  }),
  diff: defineCommand({
    summary: 'compare two recordings, or one with its server',
    about: `Compares what two recordings answer to the same requests, or a recording with what its server answers now: one of the
    configuration or at a URL with --live, or one that is started. Times, ids, durations and cursors are not compared. At a live
    server, only requests that read are made: a tool is called if the server declares its readOnlyHint.`,
    arguments: {
      first: argument('FILE', 'a recording'),
      second: optional('FILE', 'a recording'),
      command: serverCommand,
    },
    options: {
      live: text('SERVER', 'compare with this server, or with the one at this URL'),
      'allow-writes': flag('call the other tools too'),
      ...ofConfig,
    },
    hint: 'give two recordings, or one and --live SERVER, --live URL or -- COMMAND',
    exitCodes: '0 no difference, 1 there are some',
    page: 'recordings.md',
  }),
  conformance: defineCommand({
    summary: 'check a server behind the gateway against the extension proposals',
    about: `Checks what clients of a server get through the gateway, with its settings, against the extension proposals: manifest,
    errors, idempotency, permissions, confirmation, transactions, progress, references, events. Features are checked with a
    server of the command's own. Of the server, lists are read, calls are made that have to be refused, and tools are called
    that only read. A check of a feature that is off is skipped, which does not count as passed.

    A running gateway with the same store shows the last report at /conformance, apart from the test of the server itself.`,
    arguments: { server: anyServer },
    options: {
      'allow-writes': flag(
        'also call tools that change something, with features.conformance.arguments of the server',
      ),
      suite: flag('print what each check is about, as JSON'),
      ...junit,
      ...ofConfig,
    },
    hint: 'name one server, or none for all',
    exitCodes: '0 all checks that apply passed, 1 one failed or could not be carried out',
    page: 'conformance.md',
  }),
  undo: defineCommand({
    summary: 'list recent actions and how they can be undone, then undo them',
    about: `Lists the actions of tools in that time, newest first: when, for which caller, on which server, whether each can be
    undone exactly, approximately, or not at all and why, and what something else changed since, with the difference, which is
    left as it is. After confirmation, undoes the others that can be undone, in this order. A running gateway with the same
    store reads the present states and undoes the actions, or this process if none is running.`,
    options: {
      since: required(time('a duration such as 10m or 2h ago, or a time such as 2026-11-21T10:00Z')),
      until: time('the same; default: now'),
      session: text('ID', 'only actions in this client session'),
      upstream: text('SERVER', 'only actions on this server'),
      'dry-run': flag('only list the actions'),
      ...overwrite,
      ...yes('do not ask for confirmation'),
      ...ofConfig,
    },
    exitCodes: '0 everything that can be undone was undone, 1 some of it was not',
    page: 'safe-actions.md',
  }),
  verify: defineCommand({
    summary: 'check the receipt of a result',
    about: `Verifies the signature of a receipt, and that the content next to it is the content it was signed for. FILE contains the
    result of a tool or resource as JSON, with its receipt in _meta, or a receipt alone. Clients request receipts with
    "dev.gatehouse/receipt": true in _meta of the call.`,
    arguments: { file: argument('FILE', 'a file') },
    options: {
      jwks: text(
        'PLACE',
        `the gateway's keys, a file or a URL, as served at /.well-known/jwks.json; default: the key in its store`,
      ),
      ...ofConfig,
    },
    exitCodes: '0 the receipt is valid, 1 it is not',
  }),
  'audit verify': defineCommand({
    summary: 'verify the hash chain of an audit log',
    about: `Prints the number of the first line that was removed, altered or moved. Give all files of a rotated log, in any order:
    audit.jsonl.2 audit.jsonl.1 audit.jsonl.`,
    arguments: { files: rest('FILE', 'the file of an audit log', 'some') },
    options: {
      head: text(
        'HASH',
        'require a line with this hash: detects lines removed at the end, even if FILE.head is missing',
      ),
      config: text(
        'FILE',
        `the configuration of the gateway, whose store also records the end of the log: detects lines removed at the end together
        with FILE.head (default: gateway.config.yaml, if it exists)`,
        { short: 'c' },
      ),
      'env-file': config['env-file'],
      ...json,
    },
  }),
  changelog: defineCommand({
    summary: 'print how the tools, prompts and resources of servers changed',
    about: `Prints the recorded versions of what servers offer, and the changes in each: tools, prompts, resources, their arguments and
    results. A version is major.minor.patch: major for changes that may break callers, minor for additions, patch for changed
    descriptions. Running gateways record the versions.`,
    arguments: { server: optional('SERVER', 'a server') },
    options: ofConfig,
    hint: 'give one server, or none for all',
  }),
  health: defineCommand({
    summary: 'check whether a running gateway responds',
    about: `For probes. The default URL is the listen address in the configuration, else http://127.0.0.1:8900.`,
    arguments: { url: optional('URL', 'the URL of a gateway') },
    options: {
      ready: flag('check whether it can serve calls: its servers can be reached'),
      host: text('H', 'the address of the gateway'),
      ...port('the port of the gateway'),
      ...ofConfig,
    },
    hint: 'give one URL, or none',
    exitCodes: '0 yes, 1 no',
  }),
  'store info': defineCommand({
    summary: 'print the location, size and content of the store',
    options: { force: flag('', { isIgnored: true }), ...ofConfig },
    hint: 'store info takes no file',
  }),
  'store export': defineCommand({
    summary: `write all entries as JSON lines to FILE or stdout, including the gateway's own keys`,
    arguments: { file: optional('FILE', 'the file to write') },
    options: { ...force('overwrite FILE'), ...ofConfig },
    hint: 'give one file',
  }),
  'store import': defineCommand({
    summary: 'read such a file, after checking all of it',
    arguments: { file: argument('FILE', 'the file to import') },
    options: { ...force('overwrite existing entries'), ...ofConfig },
    hint: 'give one file',
  }),
  'store accept': defineCommand({
    summary: 'continue with a store that lost data',
    about: `Once the data cannot be restored: calls with an idempotency key that were already answered may then run again.`,
    options: { force: flag('', { isIgnored: true }), ...ofConfig },
    hint: 'store accept takes no file',
  }),
  completion: defineCommand({
    summary: 'print a script that completes commands in a shell',
    about: `For bash, add this line to ~/.bashrc: eval "$(gatehouse completion bash)"

    For zsh, add this line to ~/.zshrc, behind compinit: eval "$(gatehouse completion zsh)"

    For fish: gatehouse completion fish > ~/.config/fish/completions/gatehouse.fish

    With the words of a command line behind --, prints what the last of them can be, as the scripts do.`,
    arguments: {
      shell: choice('SHELL', ['bash', 'zsh', 'fish'], 'a shell: bash, zsh or fish'),
      command: serverCommand,
    },
    hint: 'give one shell: bash, zsh or fish',
  }),
}

/** The first words of all commands, in the order of help. */
export const names: readonly string[] = [
  ...new Set(Object.keys(commands).map((name) => name.split(' ')[0] ?? '')),
]
