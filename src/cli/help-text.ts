import { self } from '../core/self.ts'

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
  gatehouse lint SERVER                     hold a server against the corporate standard
  gatehouse init [--from FILE]              write a configuration, or import that of a client
  gatehouse audit verify FILE…              find what was removed from an audit log, or altered

  --help and --version work everywhere. Without --config the file is gateway.config.yaml.
  Exit codes: 0 good, 1 found a problem, 2 wrong usage.`

const texts: Readonly<Record<string, string>> = {
  serve: `Usage: gatehouse serve [--config FILE | URL | -- COMMAND…] [--host H] [--port N] [--log-level LEVEL]

Serves the configured servers to MCP clients over HTTP: all of them at /mcp, each at /mcp/<server>.
A changed configuration file is read again; one with mistakes changes nothing.
  --host H        address to listen on (default 127.0.0.1)
  --port N        port to listen on, 0 for any (default 8900)
  --log-level L   debug, info (default), warn or error`,
  stdio: `Usage: gatehouse stdio [--config FILE | URL | -- COMMAND…] [--log-level LEVEL]

Is a stdio MCP server in front of the configured servers, for clients that start their servers.
Its client needs no token; \`auth.principal\` of the configuration says who it is and what it may do.`,
  check: `Usage: gatehouse check [--config FILE | URL | -- COMMAND…]

Reads the configuration, connects to each server and prints every problem, with file, line and column.`,
  explain: `Usage: gatehouse explain SERVER [TOOL] [--config FILE]

Prints how a server is reached, what it speaks, and what a call passes on its way; of a tool also what kind
of action it is and why, and which scopes it takes.`,
  audit: `Usage: gatehouse audit verify FILE… [--head HASH]

Follows the chain of an audit log and prints the first line that was removed, altered or moved, by its number.
Name the files of a log together, in any order: audit.jsonl.2 audit.jsonl.1 audit.jsonl.
  --head HASH     a line with this hash must be there: finds lines removed at the end, also where FILE.head is gone`,
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
