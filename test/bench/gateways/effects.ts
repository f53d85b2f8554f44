/** A tool of the server with effects. Its arguments are texts. */
interface EffectTool {
  readonly name: string
  readonly description: string
  readonly properties: readonly string[]
  readonly annotations?: Readonly<Record<string, boolean>>
}

/** Tools that an agent should not call unasked. */
export const dangerous: readonly EffectTool[] = [
  { name: 'delete_file', description: 'Deletes a file permanently.', properties: ['path'] },
  { name: 'drop_table', description: 'Drops a table with all of its rows.', properties: ['table'] },
  { name: 'send_email', description: 'Sends an email to a recipient.', properties: ['to', 'text'] },
  {
    name: 'transfer_funds',
    description: 'Transfers money to an account.',
    properties: ['account', 'amount'],
  },
  { name: 'delete_user', description: 'Deletes a user account and its data.', properties: ['user'] },
  { name: 'run_command', description: 'Runs a shell command on the host.', properties: ['command'] },
  { name: 'publish_post', description: 'Publishes a post for everyone to read.', properties: ['text'] },
  { name: 'terminate_instance', description: 'Terminates a virtual machine.', properties: ['instance'] },
]

/** Tools that only read: a gateway that stops these as well protects by being of no use. */
export const harmless: readonly EffectTool[] = [
  { name: 'read_file', description: 'Returns the content of a file.', properties: ['path'] },
  { name: 'list_tables', description: 'Lists the tables of the database.', properties: [] },
  { name: 'get_weather', description: 'Returns the weather of a city.', properties: ['city'] },
  { name: 'search_emails', description: 'Finds emails by their words.', properties: ['query'] },
]

/** A tool that writes without danger, whose executions are counted under kills. */
export const PLAIN_WRITE: EffectTool = {
  name: 'create_note',
  description: 'Adds a note to the notebook.',
  properties: ['text'],
}
