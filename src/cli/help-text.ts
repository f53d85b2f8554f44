/** The texts of `--help`, one for each command. */
import { self } from '../core/identity.ts'

/** The output of `--version`. */
export const version = `gatehouse ${self.version}`

/** The output of `--help` without a command. */
export const overview = `Gatehouse ${self.version}: a gateway in front of MCP servers

Usage
  gatehouse [serve] [--config FILE]         serve the servers of a configuration over HTTP
  gatehouse serve -- COMMAND [ARG…]         serve one server, started as a child process
  gatehouse serve https://host/mcp          serve one server, reached over HTTP
  gatehouse stdio [same as serve]           run as a stdio MCP server in front of them
  gatehouse check [--config FILE]           report every problem in a configuration
  gatehouse explain SERVER [TOOL]           show how the gateway handles a call, and why
  gatehouse call SERVER TOOL [ARGUMENT…]    call a tool, or try the call with --dry-run
  gatehouse plan [SERVER]                   propose undo rules for tools, as settings to paste
  gatehouse prove SERVER --sandbox PLACE    try undo, idempotency and verify of tools with real calls
  gatehouse skill [SERVER]                  print the SKILL.md of a server, for agents that load skills
  gatehouse export registry [SERVER]        print the registry entry of a server
  gatehouse lint SERVER                     check a server against the corporate profile
  gatehouse test [SERVER | --all]           test servers with calls generated from their schemas
  gatehouse init [--from FILE]              write a configuration, or import that of a client
  gatehouse approvals list                  list calls that wait for approval; show, approve or deny one
  gatehouse tx list                         list transactions; show, roll back or acknowledge one
  gatehouse ops list                        list operations, the tool calls that last; show or cancel one
  gatehouse events list                     list the types of events; print events, manage subscriptions
  gatehouse refs list                       list data that is kept for callers; show, save, add or delete some
  gatehouse record SERVER -o FILE           record what passes between a client and a server
  gatehouse replay FILE                     serve a recording in the place of its server, or make a test of it
  gatehouse diff FILE FILE                  compare two recordings, or one with its server
  gatehouse conformance [SERVER]            check a server behind the gateway against the extension proposals
  gatehouse undo --since 10m                list recent actions and how they can be undone, then undo them
  gatehouse verify FILE                     check the receipt of a result
  gatehouse audit verify FILE…              detect removed or altered lines in an audit log
  gatehouse changelog [SERVER]              print how the tools, prompts and resources of servers changed
  gatehouse health [URL]                    check whether a running gateway responds
  gatehouse store info|export|import|accept describe, export or import the store; accept one that lost data

  Every command takes --help and --version. The default of --config is gateway.config.yaml.
  Variables come from the environment, else from --env-file FILE, else from .env next to the configuration.
  Exit codes: 0 success, 1 a problem was found, 2 wrong usage.`

const texts: Readonly<Record<string, string>> = {
  serve: `Usage: gatehouse serve [--config FILE | URL | -- COMMAND…] [--host H] [--port N] [--log-level LEVEL]

Serves the configured servers to MCP clients over HTTP: all of them at /mcp, each at /mcp/<server>.
A changed configuration file, or file of its variables (.env), is reloaded; a file with mistakes is rejected and the
previous settings stay in effect.
  --host H        address to listen on (default 127.0.0.1)
  --port N        port to listen on, 0 for any free port (default 8900)
  --log-level L   debug, info (default), warn or error`,
  stdio: `Usage: gatehouse stdio [--config FILE | URL | -- COMMAND…] [--gateway-key KEY] [--token-env NAME | --token-file FILE]
                       [--log-level LEVEL]

Runs as a stdio MCP server in front of the configured servers, for clients that start their servers.
Its client needs no token; \`auth.principal\` in the configuration sets its identity and scopes.
  --gateway-key K the URL is a Gatehouse with this key, which it prints at startup and proves when connected;
                  features that both gateways have on, such as confirmation, are left to that gateway; auto accepts
                  the key of any Gatehouse at a URL that is https:// or on this machine
  --token-env N   send the bearer token in this environment variable to the URL
  --token-file F  send the bearer token in this file to the URL`,
  check: `Usage: gatehouse check [--config FILE | URL | -- COMMAND…] [--json]

Reads the configuration, connects to each server and reports every problem, with file, line and column.
  --json          print JSON`,
  explain: `Usage: gatehouse explain SERVER [TOOL] [--config FILE] [--json]
       gatehouse explain URL [TOOL]
       gatehouse explain [TOOL] -- COMMAND…

Prints how a server is reached, its protocol revision, and the features that a call passes through. For each tool,
prints its effect, whether confirmation is required, and how it is undone; for a named tool, also why.
  --json          print JSON`,
  call: `Usage: gatehouse call SERVER TOOL [JSON | KEY=VALUE… | @FILE | -] [--dry-run] [--config FILE] [--json]
       gatehouse call URL TOOL [ARGUMENT…]
       gatehouse call TOOL [ARGUMENT…] -- COMMAND…

Calls a tool through a gateway in this process, with the features of the configuration, and prints the result. The store
and the audit log are those of running gateways, so an idempotency key is the same for both.
The arguments are a JSON object, KEY=VALUE words, the JSON in a file (@FILE), or JSON on standard input (-). A VALUE is
text where the schema of the tool says so, and JSON elsewhere if it can be read as JSON.
A confirmation is asked for in the terminal; without one, the call is refused unless --yes is given.
  --dry-run       only say what the call would do: the server is not called, and nothing is kept
  --key KEY       the idempotency key of the call
  --yes           confirm the call
  --json          print the whole result as JSON
Exit codes: 0 success, 1 the result is an error, or the call failed, 2 wrong usage.`,
  plan: `Usage: gatehouse plan [SERVER] [--config FILE] [--pack FILE] [--json | --write]
       gatehouse plan URL | -- COMMAND…

Reads the tool lists of servers, without calling a tool, and prints undo rules as YAML to paste into the
configuration: a tool that does the opposite, or restoring what was read before the call. Comments give the reasons.
A tool that cannot be undone is proposed as a pivot, with a confirmation message. What a pack has proved about exactly
this definition of a tool comes before what its name and schemas suggest.
  --pack FILE     use a pack of gatehouse prove; several are possible
  --json          print JSON
  --write         add the certain proposals to the configuration file, with their reasons as comments; existing
                  content is kept`,
  test: `Usage: gatehouse test SERVER [--config FILE] [--tool NAME]… [--allow-writes | --sandbox PLACE…] [--watch]
                      [--seed N] [--json | --junit FILE]
       gatehouse test URL | -- COMMAND…
       gatehouse test --all [--jobs N]
       gatehouse test

Tests a server as it is, with no feature of the gateway between: its lists, prompts and resources, messages that are
not valid, and calls of its tools generated from their input schemas: valid, at the limits, of wrong types, incomplete,
hostile. Prints what fails, a score from 0 to 100, and of how many tools a valid call succeeded: of the others the score
says little. Only calls that read are made, judged by name, description, arguments and annotations. Example calls of the
configuration, and of the server, have to give the output that they show.
--all tests every server of the configuration, several at once, and prints a table of scores. Without a server and
without --all, prints which tools would be called, and asks before it tests. Servers that cannot be tested, such as those
for which each user has credentials, have no score.
A running gateway with the same store shows the scores and their history at /conformance.
  --all           all servers; each has at most twice the time of --max-time, with its start
  --jobs N        how many servers are tested at once (default: two for each core, 4 to 16)
  --tool NAME     call only this tool; may be repeated
  --allow-writes  also call tools that may change something, if their undo is exact, and configured or proved: each call
                  is a transaction that is rolled back
  --sandbox PLACE also call tools that may change something, in a sandbox, as gatehouse prove does: a folder; an argument
                  and its value, such as repo=scratch; "server" if the whole server is there for tests; or "copy" for
                  throw-away copies of the folders and files that the command of each server, and its variables, name.
                  Several are possible, but not with --allow-writes
  --watch         test again when the configuration, or a file of the command of a server, changes
  --seed N        the choice of cases (default 1): the same number makes the same calls
  --timeout T     how long a response may take (default 10s); three times as long where progress is reported
  --max-time T    how long the calls of tools that read may take together (default 100s); the rest is left out
  --json          print JSON
  --junit FILE    also write JUnit XML: a suite for each server, with its score
Exit codes: 0 no check failed, 1 a check failed or could not be carried out, or the answer was no, 2 wrong usage.`,
  prove: `Usage: gatehouse prove SERVER --sandbox PLACE [--tool NAME…] [--arguments FILE] [-o PACK] [--config FILE] [--json]
       gatehouse prove URL --sandbox PLACE
       gatehouse prove --sandbox PLACE -- COMMAND…

Calls the tools of a server that do not only read, for real, and prints what is proved about each: that its undo restores
the state (undo), that two calls with one idempotency key have one effect (once), that its verify is right (verify), and
that a repeated call has no further effect (idempotent). No call has an argument that looks like a place outside of the
sandbox.
  --sandbox PLACE a folder; an argument and its value, such as repo=scratch, or key=test:* for all values that begin like
                  this; or "server" if the whole server is there for tests. Several are possible
  --tool NAME     only this tool; several are possible
  --arguments F   a JSON file with the arguments of tools, and the calls before them: docs/proofs.md describes it
  -o PACK         write what is proved to a pack, for gatehouse plan --pack; --force replaces a file
  --json          print JSON
  --junit FILE    also write the report as JUnit XML
Exit codes: 0 nothing was refuted, 1 something was.`,
  approvals: `Usage: gatehouse approvals list [--config FILE] [--json]
       gatehouse approvals show ID
       gatehouse approvals approve ID [--reason TEXT] [--typed TEXT] [--remember]
       gatehouse approvals deny ID [--reason TEXT]

Lists the calls that wait for approval and decides them, in the store that running gateways share.
To approve, a terminal is needed: it shows the call, and asks for a code.
The first 6 or more characters of an id are enough if they are unique.
  --store FOLDER  the store of a gateway without a configuration file
  --reason TEXT   the reason, recorded with the decision
  --typed TEXT    the text that must be typed to approve, where the call requires it
  --remember      do not ask again about this tool in the session of the caller, where that is offered
  --json          print JSON`,
  audit: `Usage: gatehouse audit verify FILE… [--config FILE] [--head HASH] [--json]

Verifies the hash chain of an audit log and prints the number of the first line that was removed, altered or moved.
Give all files of a rotated log, in any order: audit.jsonl.2 audit.jsonl.1 audit.jsonl.
  --config FILE   the configuration of the gateway, whose store also records the end of the log: detects lines removed
                  at the end together with FILE.head (default: gateway.config.yaml, if it exists)
  --head HASH     require a line with this hash: detects lines removed at the end, even if FILE.head is missing
  --json          print JSON`,
  changelog: `Usage: gatehouse changelog [SERVER] [--config FILE] [--json]

Prints the recorded versions of what servers offer, and the changes in each: tools, prompts, resources, their
arguments and results. A version is major.minor.patch: major for changes that may break callers, minor for additions,
patch for changed descriptions. Running gateways record the versions.
  --json          print JSON`,
  tx: `Usage: gatehouse tx list [--config FILE] [--json] [--principal ID]
       gatehouse tx show ID
       gatehouse tx rollback ID [--reason TEXT]
       gatehouse tx ack ID

Lists transactions, those that need attention first, with their steps, the compensation of each, and what could not
be undone. rollback rolls back an open transaction, through a running gateway with the same store, or in this process
if none is running. ack records that a transaction that needs attention has been handled.
  --principal ID  only transactions of this caller: callers choose the ids, so they need not be unique
  --reason TEXT   the reason, recorded with the rollback
  --json          print JSON`,
  ops: `Usage: gatehouse ops list [--config FILE | --store FOLDER] [--json]
       gatehouse ops show NAME
       gatehouse ops cancel NAME

Lists operations: tool calls that take over a second, and tasks. Running ones come first, the newest last, with name,
state, server and tool, caller, age, and whether the caller sees a task. show prints one; of what the caller sent and
gets, only sizes. cancel ends a running operation: its outcome is not kept, and its gateway stops a task within seconds.
A client that still waits for its response gets it. What the server did until then stays done.
The log of the gateway contains the name of an operation as \`operation\`.
  --store FOLDER  the store of a gateway without a configuration file
  --json          print JSON
Exit codes: 0 success, 1 there is no such operation, or it has ended already.`,
  events: `Usage: gatehouse events list [SERVER] [--config FILE] [--json]
       gatehouse events tail [SERVER] [--type NAME] [--since WHEN] [--follow] [--config FILE | --store FOLDER] [--json]
       gatehouse events subscriptions [--principal ID] [--config FILE | --store FOLDER] [--json]
       gatehouse events subscriptions drop ID [--principal ID]
       gatehouse events dead-letters [SUBSCRIPTION] [--json]
       gatehouse events redeliver SUBSCRIPTION [EVENT] | --all

list connects to the servers and prints the types of events that clients with every right have, what each comes from,
how it is delivered, and how many events of it are in the store.
tail prints the events in the store, oldest first, and says where events are missing. Secrets and masked data are not
in the store; other data is, as servers and callers sent it. On a line, long data is cut: --json prints all of it.
subscriptions prints who subscribes to what, where events are delivered to (of URLs, origin and path), how many may be
waiting, when it expires, and the last failure. drop ends a subscription: running gateways stop its deliveries within
seconds. Its subscriber is not notified, and can subscribe again if it still has the right.
dead-letters prints the events that a webhook receiver refused or did not accept in time. redeliver has running gateways
deliver them again: all, those of one subscription, or one event. The first 10 or more characters of the id of a
subscription are enough if they are unique.
  --type NAME     only events of this type; * stands for any text
  --since WHEN    a duration such as 10m or 2h ago, or a time such as 2026-11-21T10:00Z
  --follow, -f    go on with new events until interrupted
  --all           every dead letter
  --principal ID  only subscriptions of this caller: callers choose some ids, so they need not be unique
  --store FOLDER  the store of a gateway without a configuration file; tail then needs the name of a server
  --json          print JSON; tail prints one object on each line
Exit codes: 0 success, 1 a server cannot be asked, there is no such subscription or dead letter, or its subscription has
ended.`,
  refs: `Usage: gatehouse refs list [--principal ID] [--config FILE | --store FOLDER] [--json]
       gatehouse refs show ID
       gatehouse refs get ID [-o FILE] [--force]
       gatehouse refs put FILE [--principal ID] [--name NAME] [--type TYPE] [--id ID] [--ttl TIME]
       gatehouse refs drop ID

Lists the data that gateways keep for callers (ref://ID), with size, type, name, origin, caller and expiry. show prints the
facts of one. get saves its data, or writes it to a program. put keeps a file, which the caller can use as ref://ID. drop
deletes data at once, even if a replay, a transaction or an undo needs it.
The first 6 or more characters of an id are enough if they are unique.
  --principal ID  the caller: callers choose some ids, so they need not be unique. Also the first 6 or more characters of
                  its hash, except for put. put keeps data for everybody where callers are not authenticated
  -o FILE         save to this file; --force overwrites one
  --name, --type  what the data is called, and its media type (default: from the name of the file)
  --id ID         the id (default: one that cannot be guessed)
  --ttl TIME      how long it is kept, such as 2h (default: features.references.ttl)
  --store FOLDER  the store of a gateway without a configuration file
  --json          print JSON
Exit codes: 0 success, 1 there is no such reference, or no room for the file.`,
  record: `Usage: gatehouse record SERVER -o FILE [--config FILE] [--port N] [--force]
       gatehouse record URL -o FILE
       gatehouse record -o FILE -- COMMAND…

Runs as a stdio MCP server in front of one server, without features, and writes what passes to a file: requests,
responses, notifications, and questions of the server with their answers. Secrets of the configuration, what looks like
a secret, and what the rules of features.mask name are replaced by ***.
  -o FILE         the recording; only its owner can read it
  --port N        serve over HTTP on this port instead, 0 for any free port
  --force         replace an existing file`,
  replay: `Usage: gatehouse replay FILE [--port N] [--host H]
       gatehouse replay FILE --list
       gatehouse replay FILE --to-test N [-o FILE]

Serves a recording as a stdio MCP server, to clients of every revision. Requests are answered as in the recording, with
the questions and notifications of the server; others fail and say what is nearest.
  --port N        serve over HTTP on this port instead, 0 for any free port
  --host H        address to listen on (default 127.0.0.1)
  --list          number the requests of the recording
  --to-test N     write the request with this number as a test for vitest and @modelcontextprotocol/client
  -o FILE         the file of the test; default: stdout`,
  diff: `Usage: gatehouse diff FILE FILE [--json]
       gatehouse diff FILE --live SERVER [--config FILE] [--allow-writes] [--json]
       gatehouse diff FILE --live URL
       gatehouse diff FILE -- COMMAND…

Compares what two recordings answer to the same requests, or a recording with what its server answers now. Times, ids,
durations and cursors are not compared. At a live server, only requests that read are made: a tool is called if the
server declares its readOnlyHint.
  --allow-writes  call the other tools too
  --json          print JSON
Exit codes: 0 no difference, 1 there are some.`,
  conformance: `Usage: gatehouse conformance [SERVER] [--config FILE] [--json] [--junit FILE] [--allow-writes]
       gatehouse conformance URL | -- COMMAND…
       gatehouse conformance --suite

Checks what clients of a server get through the gateway, with its settings, against the extension proposals: manifest,
errors, idempotency, permissions, confirmation, transactions, progress, references, events. Features are checked with a
server of the command's own. Of the server, lists are read, calls are made that have to be refused, and tools are called
that only read. A check of a feature that is off is skipped, which does not count as passed.
A running gateway with the same store shows the last report at /conformance, apart from the test of the server itself.
  --json          print JSON
  --junit FILE    also write the report as JUnit XML
  --allow-writes  also call tools that change something, with features.conformance.arguments of the server
  --suite         print what each check is about, as JSON
Exit codes: 0 all checks that apply passed, 1 one failed or could not be carried out.`,
  undo: `Usage: gatehouse undo --since WHEN [--until WHEN] [--session ID] [--upstream SERVER] [--dry-run] [--yes]
                      [--json] [--config FILE]

Lists the actions of tools in that time, newest first: when, for which caller, on which server, and whether each can
be undone exactly, approximately, or not at all and why. After confirmation, undoes those that can be undone, in this
order, through a running gateway with the same store, or in this process if none is running.
  --since WHEN    a duration such as 10m or 2h ago, or a time such as 2026-11-21T10:00Z
  --until WHEN    the same; default: now
  --session ID    only actions in this client session
  --upstream S    only actions on this server
  --dry-run       only list the actions
  --yes           do not ask for confirmation
  --json          print JSON
Exit codes: 0 everything that can be undone was undone, 1 some of it was not.`,
  verify: `Usage: gatehouse verify FILE [--jwks FILE | --jwks URL] [--config FILE] [--json]

Verifies the signature of a receipt, and that the content next to it is the content it was signed for.
FILE contains the result of a tool or resource as JSON, with its receipt in _meta, or a receipt alone. Clients request
receipts with "dev.gatehouse/receipt": true in _meta of the call.
  --jwks PLACE    the gateway's keys, as served at /.well-known/jwks.json; default: the key in its store
  --json          print JSON
Exit codes: 0 the receipt is valid, 1 it is not.`,
  health: `Usage: gatehouse health [URL] [--config FILE] [--host H] [--port N] [--ready]

Checks whether a running gateway responds, for probes. The default URL is the listen address in the configuration,
else http://127.0.0.1:8900.
  --ready         check whether it can serve calls: its servers can be reached
Exit codes: 0 yes, 1 no.`,
  store: `Usage: gatehouse store info [--json] | export [FILE] | import FILE | accept   [--config FILE] [--force]

Works on the store of the configuration, even while a gateway uses it. info prints its location, size and content.
export writes all entries as JSON lines to FILE or stdout, including the gateway's own keys. import reads such a file,
after checking all of it. accept continues with a store that lost data, once the data cannot be restored: calls with
an idempotency key that were already answered may then run again.
  --force         overwrite existing data: FILE on export, entries on import`,
  skill: `Usage: gatehouse skill [SERVER] [--config FILE]
       gatehouse skill URL | -- COMMAND…

Prints the SKILL.md of a server, or of all servers together: when to use it, its tools, how to reach it, and its
rules. A running gateway serves the same at /skills/SERVER/SKILL.md and as MCP skills and resources.`,
  export: `Usage: gatehouse export registry [SERVER] [--config FILE]
       gatehouse export registry URL | -- COMMAND…

Prints a registry entry as JSON: name, description, installation, and alternatives.
It is not marked as verified.`,
  lint: `Usage: gatehouse lint SERVER [--config FILE] [--json] [--strict]

Reads what a server offers, without calling a tool, and prints for each rule of the corporate profile
whether the server complies, the gateway complies for it, or the rule is broken, where, and how to fix it.
  --json          print JSON
  --strict        exit with 1 if a MUST or MUST NOT rule is broken`,
  init: `Usage: gatehouse init [--from FILE]... [--config FILE] [--force]

Writes a first gateway.config.yaml. With --from it imports the servers of a client's configuration, such as
claude_desktop_config.json, .mcp.json, .cursor/mcp.json, .vscode/mcp.json or ~/.codex/config.toml; several are merged.
Secrets become \${VARIABLES} with their values in .env beside it. What cannot be imported is printed.`,
}

/** The output of `--help` for one command. */
export function helpOf(command: string): string {
  return Object.hasOwn(texts, command) ? (texts[command] ?? overview) : overview
}
