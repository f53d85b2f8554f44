/** The texts of `--help`, one for each command. Tests compare the manual with them. */
import { self } from '../core/identity.ts'

/** What `--version` prints. */
export const version = `gatehouse ${self.version}`

/** What `--help` prints. */
export const overview = `Gatehouse ${self.version}: a gateway in front of MCP servers

Usage
  gatehouse [serve] [--config FILE]         serve the servers of a configuration over HTTP
  gatehouse serve -- COMMAND [ARG…]         serve one server, started as a child process
  gatehouse serve https://host/mcp          serve one server, reached over HTTP
  gatehouse stdio [same as serve]           be a stdio MCP server in front of them
  gatehouse check [--config FILE]           find every problem of a configuration
  gatehouse explain SERVER [TOOL]           show what happens to a call
  gatehouse plan [SERVER]                   propose how tools are undone, as settings to paste
  gatehouse skill [SERVER]                  print the SKILL.md of a server, for agents that load skills
  gatehouse export registry [SERVER]        print how a registry of servers lists it
  gatehouse lint SERVER                     hold a server against the corporate standard
  gatehouse init [--from FILE]              write a configuration, or import that of a client
  gatehouse approvals list                  show calls that wait for a person; show, approve or deny one
  gatehouse tx list                         show transactions; show one, roll it back, or acknowledge what is left
  gatehouse undo --since 10m                show what was done and how it can be undone, then undo it
  gatehouse verify FILE                     check the receipt of a result
  gatehouse audit verify FILE…              find what was removed from an audit log, or altered
  gatehouse changelog [SERVER]              print what servers offer, and what of it changed
  gatehouse health [URL]                    ask a gateway that runs whether it answers
  gatehouse store info|export|import|accept describe the store, move its content, go on after a loss

  --help and --version work everywhere. Without --config the file is gateway.config.yaml.
  Variables come from the environment, else from --env-file FILE, else from .env beside the configuration.
  Exit codes: 0 good, 1 found a problem, 2 wrong usage.`

const texts: Readonly<Record<string, string>> = {
  serve: `Usage: gatehouse serve [--config FILE | URL | -- COMMAND…] [--host H] [--port N] [--log-level LEVEL]

Serves the configured servers to MCP clients over HTTP: all of them at /mcp, each at /mcp/<server>.
A changed configuration file is read again; one with mistakes changes nothing.
  --host H        address to listen on (default 127.0.0.1)
  --port N        port to listen on, 0 for any (default 8900)
  --log-level L   debug, info (default), warn or error`,
  stdio: `Usage: gatehouse stdio [--config FILE | URL | -- COMMAND…] [--gateway-key KEY] [--log-level LEVEL]

Is a stdio MCP server in front of the configured servers, for clients that start their servers.
Its client needs no token; \`auth.principal\` of the configuration says who it is and what it may do.
  --gateway-key K the URL is a Gatehouse with this key, which it prints when it starts: it proves that, and what both
                  would do, such as asking a person, is left to it`,
  check: `Usage: gatehouse check [--config FILE | URL | -- COMMAND…] [--json]

Reads the configuration, connects to each server and prints every problem, with file, line and column.
  --json          print for programs`,
  explain: `Usage: gatehouse explain SERVER [TOOL] [--config FILE] [--json]
       gatehouse explain URL [TOOL]
       gatehouse explain [TOOL] -- COMMAND…

Prints how a server is reached, what it speaks, and what a call passes on its way; of each tool what kind of
action it is, whether a person is asked and how it is undone, and of a tool that is named also why.
  --json          print for programs`,
  plan: `Usage: gatehouse plan [SERVER] [--config FILE] [--json | --write]
       gatehouse plan URL | -- COMMAND…

Looks at what servers list, without calling a tool, and prints how each tool could be undone, as YAML to paste
into the configuration: with the tool that does the opposite, or by putting back what is read before. Comments
say why. What has no way back is proposed as a pivot, with a question to ask before.
  --json          print for programs
  --write         add what is sure to the configuration file, with the reasons as comments; what stands there stays`,
  approvals: `Usage: gatehouse approvals list [--config FILE] [--json]
       gatehouse approvals show ID
       gatehouse approvals approve ID [--reason TEXT] [--typed TEXT] [--remember]
       gatehouse approvals deny ID [--reason TEXT]

Shows the calls that wait for a person, and decides them, in the store that running gateways share.
Of an id the first 6 characters do, where no other begins with them.
  --store FOLDER  the store of a gateway without a configuration file
  --reason TEXT   why, for those who look at it later
  --typed TEXT    what has to be typed to approve, where the call takes that
  --remember      do not ask again about this tool in the session of the caller, where that is offered
  --json          print for programs`,
  audit: `Usage: gatehouse audit verify FILE… [--config FILE] [--head HASH] [--json]

Follows the chain of an audit log and prints the first line that was removed, altered or moved, by its number.
Name the files of a log together, in any order: audit.jsonl.2 audit.jsonl.1 audit.jsonl.
  --config FILE   the configuration of the gateway, whose store has the end of the log too: finds lines removed at the
                  end together with FILE.head (default: gateway.config.yaml, where it is there)
  --head HASH     a line with this hash must be there: finds lines removed at the end, also where FILE.head is gone
  --json          print for programs`,
  changelog: `Usage: gatehouse changelog [SERVER] [--config FILE] [--json]

Prints which versions there were of what servers offer, and what changed with each: tools, prompts, resources,
their arguments and results. The first number of a version is raised by what may break callers, the second by
what is added, the third by other words. Gateways write it down while they run.
  --json          print for programs`,
  tx: `Usage: gatehouse tx list [--config FILE] [--json] [--principal ID]
       gatehouse tx show ID
       gatehouse tx rollback ID [--reason TEXT]
       gatehouse tx ack ID

Shows transactions, those that need attention first: with their steps, what undid each, and what could not be
undone. rollback undoes one that is under way, through a gateway that runs with the same store, or by itself where
none does. ack records that what was left has been handled.
  --principal ID  only those of one caller: callers choose ids, so several may have chosen the same
  --reason TEXT   why, for those who look at it later
  --json          print for programs`,
  undo: `Usage: gatehouse undo --since WHEN [--until WHEN] [--session ID] [--upstream SERVER] [--dry-run] [--yes]
                      [--json] [--config FILE]

Shows what tools did in that time, the last thing first: when, for whom, at which server, and whether it can be
undone exactly, approximately, or not at all and why. Then undoes what can be undone, in this order, once that is
agreed to. A gateway that runs with the same store does it; where none does, this command does it itself.
  --since WHEN    a time ago such as 10m or 2h, or a time such as 2026-11-21T10:00Z
  --until WHEN    the same; by default until this moment
  --session ID    only what was done in one client's session
  --upstream S    only what was done at one server
  --dry-run       only show it
  --yes           do not ask
  --json          print for programs
Exit codes: 0 everything that could be undone is, 1 something of it is not.`,
  verify: `Usage: gatehouse verify FILE [--jwks FILE | --jwks URL] [--config FILE] [--json]

Checks a receipt: that it was signed by the gateway, and that the content beside it is the one it was signed for.
FILE holds the result of a tool or resource as JSON, with its receipt in _meta, or a receipt alone. Clients ask for
receipts with "dev.gatehouse/receipt": true in _meta of the call.
  --jwks PLACE    the gateway's keys, as /.well-known/jwks.json has them; by default those in its store
  --json          print for programs
Exit codes: 0 the receipt holds, 1 it does not.`,
  health: `Usage: gatehouse health [URL] [--config FILE] [--host H] [--port N] [--ready]

Asks a gateway that runs whether it answers, for probes. Without URL it asks where the configuration says that the
gateway listens, else http://127.0.0.1:8900.
  --ready         whether it can serve calls: its servers can be reached
Exit codes: 0 it does, 1 it does not.`,
  store: `Usage: gatehouse store info [--json] | export [FILE] | import FILE | accept   [--config FILE] [--force]

Works on the store of the configuration, also while a gateway uses it. info tells where it is, how large, and
what is in it. export writes everything as JSON lines to FILE, or to stdout; the gateway's own keys are among it.
import reads such a file, and checks all of it before it writes anything. accept goes on with a store that lost what
it had promised, once its old content cannot be brought back: calls with a key that were answered may run again then.
  --force         overwrite what is there: FILE on export, entries on import`,
  skill: `Usage: gatehouse skill [SERVER] [--config FILE]
       gatehouse skill URL | -- COMMAND…

Prints the SKILL.md of a server, or of all servers together: when to use it, its tools, how to reach it, and the
rules. A running gateway serves the same at /skills/SERVER/SKILL.md and among the skills and resources of MCP.`,
  export: `Usage: gatehouse export registry [SERVER] [--config FILE]
       gatehouse export registry URL | -- COMMAND…

Prints the entry of a registry of servers, as JSON: name, description, how it is installed, other ways to the same.
It is not marked as verified.`,
  lint: `Usage: gatehouse lint SERVER [--config FILE] [--json] [--strict]

Reads what a server offers, without calling a tool, and prints for each rule of the corporate standard
whether the server keeps it, the gateway keeps it for the server, or it is broken, where, and what to do.
  --json          print a report for programs
  --strict        end with 1 where something is broken that must or must not be`,
  init: `Usage: gatehouse init [--from FILE] [--config FILE] [--force]

Writes a first gateway.config.yaml. With --from it imports the servers of a client's configuration:
claude_desktop_config.json, .mcp.json, or the mcp.json of Cursor or VS Code.
Secrets become \${VARIABLES}, which are listed.`,
}

/** What `--help` prints for one command. */
export function helpOf(command: string): string {
  return Object.hasOwn(texts, command) ? (texts[command] ?? overview) : overview
}
