/**
 * Tools of invented servers in many fields, in the words of this repository, with a label each, and labels of single
 * calls where an argument decides. They were written and labelled before the judge saw them.
 */
import type { Label, LabelledCall, LabelledServer } from './judgement-table.ts'

/** Arguments as text: `id!` is required; a type, values separated by `|`, or a schema; `= value` is the default. */
type Arguments = Readonly<Record<string, string | Readonly<Record<string, unknown>>>>
type Hints = Readonly<Record<string, boolean>>

interface Written {
  readonly name: string
  readonly about: string
  readonly label: Label
  readonly takes?: Arguments
  readonly hints?: Hints
  /** Calls with the label of each. */
  readonly calls?: readonly (readonly [arguments: Readonly<Record<string, unknown>>, label: Label])[]
}

type More = readonly [takes?: Arguments, more?: Pick<Written, 'hints' | 'calls'>]

function tool(name: string, about: string, label: Label, ...[takes = {}, more = {}]: More): Written {
  return { name, about, label, takes, ...more }
}

function schemaOf(takes: Arguments): Readonly<Record<string, unknown>> {
  const names = Object.keys(takes)
  return {
    type: 'object',
    properties: Object.fromEntries(
      names.map((name) => [name.replace('!', ''), argumentOf(takes[name] ?? 'string')]),
    ),
    required: names.filter((name) => name.endsWith('!')).map((name) => name.slice(0, -1)),
  }
}

/** `boolean`, `a|b`, `a|b = a`, `string # description`. */
function argumentOf(given: Arguments[string]): Readonly<Record<string, unknown>> {
  if (typeof given !== 'string') return given
  const [plain = '', description] = given.split(' # ')
  const [type = '', fallback] = plain.split(' = ')
  const base = type.includes('|') ? { type: 'string', enum: type.split('|') } : { type }
  return {
    ...base,
    ...(fallback !== undefined && {
      default: /^(?:true|false)$/.test(fallback) ? fallback === 'true' : fallback,
    }),
    ...(description !== undefined && { description }),
  }
}

function server(name: string, ...tools: readonly Written[]): LabelledServer {
  return {
    server: name,
    package: name,
    tools: tools.map(({ name: own, about, label, takes, hints }) => ({
      label,
      reason: '',
      definition: {
        name: own,
        description: about,
        inputSchema: schemaOf(takes ?? {}),
        ...(hints && { annotations: hints }),
      },
    })),
    calls: tools.flatMap(({ name: own, calls = [] }) =>
      calls.map(([given, label]): LabelledCall => ({ tool: own, label, arguments: given })),
    ),
  }
}

/** What mcp-go writes for a tool of which its author said nothing. */
const filled: Hints = {
  readOnlyHint: false,
  destructiveHint: true,
  idempotentHint: false,
  openWorldHint: true,
}

const crud = { 'action!': 'list|get|create|update|delete', id: 'string', body: 'object' }

/** All invented servers. */
export const writtenServers: readonly LabelledServer[] = [
  server(
    'cluster',
    tool(
      'k8s_resource',
      'This tool provides create, update and delete of Kubernetes objects.',
      'destructive',
      {
        'kind!': 'string',
        'name!': 'string',
        manifest: 'string',
        'operation!': 'string',
      },
    ),
    tool('pods', 'Provides information about the pods of a namespace.', 'read', { 'namespace!': 'string' }),
    tool('helm_install', 'Install a Helm chart into a namespace.', 'destructive', {
      'chart!': 'string',
      'release!': 'string',
      values: 'object',
    }),
    tool('helm_history', 'Revision history of a release.', 'read', { 'release!': 'string' }),
    tool('scale_deployment', 'Change the number of replicas of a deployment.', 'destructive', {
      'name!': 'string',
      'replicas!': 'integer',
    }),
    tool('cordon_node', 'Marks a node as unschedulable.', 'destructive', { 'node!': 'string' }),
    tool('drain_node', 'Evicts all pods from a node.', 'destructive', { 'node!': 'string' }),
    tool('port_forward', 'Opens a local port to a pod for the time of the session.', 'harmless', {
      'pod!': 'string',
      'port!': 'integer',
    }),
    tool('exec_in_pod', 'Runs a command in a container.', 'execute', {
      'pod!': 'string',
      'command!': 'string',
    }),
    tool('apply_manifest', 'Apply a YAML manifest to the cluster.', 'destructive', { 'manifest!': 'string' }),
    tool('top_nodes', 'Shows CPU and memory of nodes.', 'read'),
  ),
  server(
    'people',
    tool('close_account', 'Provides account closure.', 'destructive', { 'account!': 'string' }),
    tool('approve_request', 'Approve a pending access request.', 'destructive', { 'request_id!': 'string' }),
    tool('confirm_booking', 'Confirms a booking, which charges the card on file.', 'destructive', {
      'booking_id!': 'string',
    }),
    tool('update_policy', 'Update a policy document.', 'destructive', {
      'policy_id!': 'string',
      'document!': 'object',
    }),
    tool('put_inline_policy', 'Embeds an inline policy in a role.', 'destructive', {
      'role!': 'string',
      'policy!': 'string',
    }),
    tool('update_member', 'Change the role of a member of the organization.', 'destructive', {
      'member_id!': 'string',
      'role!': 'viewer|editor|owner',
    }),
    tool('add_group_member', 'Adds a user to a group.', 'destructive', {
      'group!': 'string',
      'user!': 'string',
    }),
    tool('attach_role', 'Attach a role to a service account.', 'destructive', {
      'role!': 'string',
      'account!': 'string',
    }),
    tool(
      'create_user',
      'Create a user.',
      'write',
      { 'name!': 'string', superuser: 'boolean' },
      {
        calls: [
          [{ name: 'a' }, 'write'],
          [{ name: 'a', superuser: false }, 'write'],
          [{ name: 'a', superuser: true }, 'destructive'],
        ],
      },
    ),
    tool('create_access_token', 'Issue an access token for the API.', 'destructive', { 'scopes!': 'array' }),
    tool('list_roles', 'Lists roles with their permissions.', 'read'),
    tool('get_policy', 'Retrieves one policy with its statements.', 'read', { 'policy_id!': 'string' }),
    tool('check_permission', 'Whether a user may do something.', 'read', {
      'user!': 'string',
      'permission!': 'string',
    }),
    tool('whoami', 'The current user.', 'read'),
    tool('simulate_policy', 'Evaluates a policy against requests, without applying it.', 'read', {
      'policy!': 'string',
    }),
    tool('unlock_user', 'Unlock a locked user.', 'destructive', { 'user_id!': 'string' }),
    tool('transfer_ownership', 'Transfers ownership of a project to someone else.', 'destructive', {
      'project!': 'string',
      'owner!': 'string',
    }),
  ),
  server(
    'tables',
    tool(
      'copy_table',
      'Copies rows from one table to another.',
      'write',
      {
        'source!': 'string',
        'target!': 'string',
        truncateFirst: 'boolean',
      },
      {
        calls: [
          [{ source: 'a', target: 'b' }, 'write'],
          [{ source: 'a', target: 'b', truncateFirst: true }, 'destructive'],
          [{ source: 'a', target: 'b', truncateFirst: 'true' }, 'destructive'],
          [{ source: 'a', target: 'b', truncateFirst: null }, 'write'],
        ],
      },
    ),
    tool(
      'load_csv',
      'Loads a CSV file into a table.',
      'write',
      {
        'table!': 'string',
        'csv!': 'string',
        truncateTarget: 'boolean = true',
      },
      {
        calls: [
          [{ table: 'a', csv: 'b' }, 'destructive'],
          [{ table: 'a', csv: 'b', truncateTarget: false }, 'write'],
        ],
      },
    ),
    tool('run_query', 'Run a SQL query.', 'execute', { 'sql!': 'string' }),
    tool('describe_table', 'Columns and indexes of a table.', 'read', { 'table!': 'string' }),
    tool('vacuum', 'Reclaims space of dead rows.', 'write', { 'table!': 'string' }),
    tool('alter_table', 'Alters the columns of a table.', 'destructive', {
      'table!': 'string',
      'changes!': 'array',
    }),
    tool('restore_snapshot', 'Restores the database from a snapshot.', 'destructive', {
      'snapshot!': 'string',
    }),
    tool('explain_query', 'Show the plan of a query.', 'read', { 'query!': 'string' }),
    tool('insert_rows', 'Insert rows into a table.', 'write', { 'table!': 'string', 'rows!': 'array' }),
    tool('create_index', 'Creates an index.', 'write', { 'table!': 'string', 'columns!': 'array' }),
    tool('kill_session', 'Terminates a database session.', 'destructive', { 'pid!': 'integer' }),
    tool('table_stats', 'Statistics of a table.', 'read', { 'table!': 'string' }),
    tool('upsert_documents', 'Insert documents, or replace those with the same id.', 'destructive', {
      'documents!': 'array',
    }),
    tool('update_many', 'Updates all documents that match.', 'destructive', {
      'filter!': 'object',
      'update!': 'object',
    }),
    tool('import_dump', 'Imports a dump, dropping what exists.', 'destructive', { 'path!': 'string' }),
  ),
  server(
    'settings',
    tool('set_gateway_config', 'Set the configuration of the gateway.', 'destructive', {
      'config!': 'object',
    }),
    tool('edit_item', 'Edit an item of the vault.', 'destructive', {
      'item_id!': 'string',
      'fields!': 'object',
    }),
    tool('put_secret', 'Stores a secret value.', 'destructive', { 'name!': 'string', 'value!': 'string' }),
    tool('get_secret', 'Read a secret.', 'read', { 'name!': 'string' }),
    tool('update_script', 'Updates the source of a script.', 'destructive', {
      'script_id!': 'string',
      'source!': 'string',
    }),
    tool('set_env_var', 'Sets an environment variable of an app.', 'destructive', {
      'key!': 'string',
      'value!': 'string',
    }),
    tool('update_nginx_conf', 'Write the nginx configuration and reload.', 'destructive', {
      'content!': 'string',
    }),
    tool('edit_dns_record', 'Change a DNS record of a zone.', 'destructive', {
      'record!': 'string',
      'value!': 'string',
    }),
    tool('toggle_feature_flag', 'Turns a feature flag on or off in production.', 'destructive', {
      'flag!': 'string',
      'enabled!': 'boolean',
    }),
    tool('validate_config', 'Checks a configuration for errors.', 'read', { 'config!': 'string' }),
    tool('config_get', 'Get a configuration value.', 'read', { 'key!': 'string' }),
    tool('unseal', 'Unseals the vault with a key share.', 'destructive', { 'key!': 'string' }),
    tool(
      'move_to_collection',
      'Moves an item to another collection, whose members then see it.',
      'destructive',
      {
        'item!': 'string',
        'collection!': 'string',
      },
    ),
    tool('generate_password', 'Generates a random password.', 'read', { length: 'integer' }),
    tool('rotate_key', 'Rotates an encryption key.', 'destructive', { 'key_id!': 'string' }),
  ),
  server(
    'builds',
    tool('build_item', 'Build a job.', 'destructive', { 'job!': 'string' }),
    tool('trigger_pipeline', 'Triggers a pipeline on a branch.', 'destructive', { 'branch!': 'string' }),
    tool('retry_job', 'Retry a failed job.', 'destructive', { 'job_id!': 'string' }),
    tool('get_build', 'Gets a build.', 'read', { 'build_id!': 'string' }),
    tool('get_build_log', 'Returns the log of a build.', 'read', { 'build_id!': 'string' }),
    tool('run_tests', 'Runs the test suite.', 'execute', { pattern: 'string' }),
    tool('install_package', 'Installs a package with npm.', 'destructive', { 'package!': 'string' }),
    tool('deploy', 'Deploys a revision.', 'destructive', { 'revision!': 'string' }),
    tool('queue_status', 'Number of waiting builds.', 'read'),
    tool('cancel_build', 'Cancels a running build.', 'destructive', { 'build_id!': 'string' }),
    tool('release_notes', 'Release notes between two tags.', 'read', { 'from!': 'string', 'to!': 'string' }),
    tool('enable_workflow', 'Enables a workflow.', 'write', { 'workflow!': 'string' }),
    tool('dispatch_workflow', 'Start a workflow run.', 'destructive', {
      'workflow!': 'string',
      inputs: 'object',
    }),
  ),
  server(
    'shop',
    tool('create_droplet', 'Creates a server. This is a billed resource.', 'destructive', {
      'size!': 'string',
    }),
    tool('place_order', 'Places an order.', 'destructive', { 'cart_id!': 'string' }),
    tool('checkout', 'Completes the purchase of the cart.', 'destructive', { 'cart_id!': 'string' }),
    tool('add_to_cart', 'Adds a product to the cart.', 'write', {
      'product!': 'string',
      quantity: 'integer',
    }),
    tool('capture_payment', 'Captures an authorized payment.', 'destructive', { 'payment_id!': 'string' }),
    tool('create_invoice', 'Creates a draft of an invoice.', 'write', {
      'customer!': 'string',
      'items!': 'array',
    }),
    tool('get_orders', 'Lists orders.', 'read'),
    tool('list_refunds', 'Lists refunds.', 'read'),
    tool('issue_credit', 'Issues a credit to a customer.', 'destructive', {
      'customer!': 'string',
      'amount!': 'number',
    }),
    tool('swap_tokens', 'Swaps one token for another on an exchange.', 'destructive', {
      'from!': 'string',
      'to!': 'string',
      'amount!': 'string',
    }),
    tool('sign_transaction', 'Signs a transaction with the wallet.', 'destructive', { 'tx!': 'string' }),
    tool('estimate_gas', 'Estimates the gas of a transaction.', 'read', { 'tx!': 'string' }),
    tool('wallet_balance', 'Balance of an address.', 'read', { 'address!': 'string' }),
    tool('stake', 'Stakes tokens with a validator.', 'destructive', {
      'amount!': 'string',
      'validator!': 'string',
    }),
    tool('apply_coupon', 'Applies a coupon to the cart.', 'write', {
      'cart_id!': 'string',
      'code!': 'string',
    }),
    tool('set_price', 'Sets the price of a product.', 'destructive', {
      'product!': 'string',
      'price!': 'number',
    }),
    tool('book_room', 'Books a hotel room.', 'destructive', { 'hotel!': 'string', 'date!': 'string' }),
    tool('convert_currency', 'Converts an amount between currencies.', 'read', {
      'amount!': 'number',
      'from!': 'string',
      'to!': 'string',
    }),
  ),
  server(
    'words',
    tool('create_post', 'Create a post in a forum.', 'destructive', {
      'forum!': 'string',
      'text!': 'string',
    }),
    tool('get_post', 'Gets a post with its comments.', 'read', { 'post_id!': 'string' }),
    tool('list_posts', 'Lists posts of a forum.', 'read', { 'forum!': 'string' }),
    tool('draft_email', 'Writes a draft, without sending it.', 'write', {
      'to!': 'string',
      'text!': 'string',
    }),
    tool('send_email', 'Sends an email.', 'destructive', { 'to!': 'string', 'text!': 'string' }),
    tool('mark_as_read', 'Marks messages as read.', 'write', { 'ids!': 'array' }),
    tool('publish_article', 'Makes an article public.', 'destructive', { 'id!': 'string' }),
    tool('upload_video', 'Uploads a video to the channel.', 'destructive', {
      'path!': 'string',
      privacy: 'public|unlisted|private',
    }),
    tool('translate', 'Translates a text.', 'read', { 'text!': 'string', 'to!': 'string' }),
    tool('schedule_tweet', 'Schedules a tweet.', 'destructive', { 'text!': 'string', 'at!': 'string' }),
    tool('join_channel', 'Joins a channel.', 'write', { 'channel!': 'string' }),
    tool('react', 'Adds a reaction to a message.', 'write', { 'message!': 'string', 'emoji!': 'string' }),
    tool('make_call', 'Calls a phone number.', 'destructive', { 'number!': 'string' }),
    tool('unread', 'Unread messages of the inbox.', 'read'),
    tool('create_calendar_event', 'Creates an event and invites the attendees.', 'destructive', {
      'title!': 'string',
      attendees: 'array',
    }),
    tool('rsvp', 'Answers an invitation.', 'destructive', { 'event!': 'string', 'answer!': 'yes|no' }),
    tool('update_page', 'Replaces the content of a page.', 'destructive', {
      'page!': 'string',
      'content!': 'string',
    }),
    tool('add_comment', 'Adds a comment to an issue.', 'write', { 'issue!': 'string', 'text!': 'string' }),
    tool('share_document', 'Shares a document with people.', 'destructive', {
      'doc!': 'string',
      'with!': 'array',
    }),
  ),
  server(
    'demo',
    tool('get_weather', 'Get the weather.', 'read', { 'city!': 'string' }, { hints: filled }),
    tool('list_files', 'List files in a folder.', 'read', { 'path!': 'string' }, { hints: filled }),
    tool('roll_dice', 'Roll dice.', 'read', { sides: 'integer', 'count!': 'integer' }, { hints: filled }),
    tool('greet', 'Say hello to someone.', 'read', { 'name!': 'string' }, { hints: filled }),
    tool('divide', 'Divide two numbers.', 'read', { 'a!': 'number', 'b!': 'number' }, { hints: filled }),
    tool('is_prime', 'Is a number prime?', 'read', { 'n!': 'integer' }, { hints: filled }),
    tool('learn', 'Learn how to use this server.', 'read', { topic: 'string' }, { hints: filled }),
    tool('hello_world', 'Says hello.', 'read', {}, { hints: filled }),
    tool('delete_note', 'Delete a note.', 'destructive', { 'id!': 'string' }, { hints: filled }),
    tool('create_note', 'Create a note.', 'write', { 'text!': 'string' }, { hints: filled }),
    tool('add', 'Add two numbers.', 'read', { 'a!': 'number', 'b!': 'number' }, { hints: filled }),
    tool('current_time', 'The current time in a time zone.', 'read', { zone: 'string' }, { hints: filled }),
  ),
  server(
    'mailing',
    tool('list_send', 'Send a message to everyone on a list.', 'destructive', {
      'list!': 'string',
      'text!': 'string',
    }),
    tool('list_create', 'Create a list.', 'write', { 'name!': 'string' }),
    tool('list_get', 'Get a list.', 'read', { 'list!': 'string' }),
    tool('list_members', 'Members of a list.', 'read', { 'list!': 'string' }),
    tool('list_delete', 'Delete a list.', 'destructive', { 'list!': 'string' }),
  ),
  server(
    'house',
    tool('ha_config_get_automation', 'Get an automation.', 'read', { 'id!': 'string' }),
    tool('ha_config_get_script', 'Get a script.', 'read', { 'id!': 'string' }),
    tool('ha_config_set_automation', 'Create or update an automation.', 'destructive', {
      'id!': 'string',
      'config!': 'object',
    }),
    tool('ha_config_remove_automation', 'Remove an automation.', 'destructive', { 'id!': 'string' }),
    tool('ha_config_list_areas', 'List areas.', 'read'),
    tool('ha_call_service', 'Call a service of Home Assistant.', 'destructive', {
      'domain!': 'string',
      'service!': 'string',
      data: 'object',
    }),
    tool('ha_get_state', 'State of an entity.', 'read', { 'entity!': 'string' }),
    tool('ha_unlock_door', 'Unlocks a door.', 'destructive', { 'entity!': 'string' }),
    tool('ha_turn_on_light', 'Turns on a light.', 'write', { 'entity!': 'string' }),
    tool('ha_set_temperature', 'Sets the temperature of a thermostat.', 'write', {
      'entity!': 'string',
      'degrees!': 'number',
    }),
    tool('ha_open_garage', 'Opens the garage.', 'destructive', {}),
    tool('ha_disarm_alarm', 'Disarms the alarm.', 'destructive', { 'code!': 'string' }),
  ),
  server(
    'desk',
    tool('manage_users', 'Manage users.', 'destructive', crud, {
      calls: [
        [{ action: 'list' }, 'read'],
        [{ action: 'get', id: '1' }, 'read'],
        [{ action: 'create', body: {} }, 'write'],
        [{ action: 'delete', id: '1' }, 'destructive'],
        [{ action: 'DELETE', id: '1' }, 'destructive'],
        [{ action: 'LIST' }, 'read'],
        [{ action: 'explode' }, 'destructive'],
        [{ action: null }, 'destructive'],
        [{}, 'destructive'],
      ],
    }),
    tool(
      'tickets',
      'Work with tickets.',
      'destructive',
      { ...crud, 'action!': 'list|get|create|update|delete|merge' },
      {
        hints: { readOnlyHint: false, destructiveHint: true },
        calls: [
          [{ action: 'list' }, 'read'],
          [{ action: 'delete' }, 'destructive'],
          [{ action: 'merge' }, 'destructive'],
        ],
      },
    ),
    tool(
      'issue',
      'Handles issues.',
      'destructive',
      { operation: 'get|create|close = get', id: 'string' },
      {
        calls: [
          [{}, 'read'],
          [{ operation: 'close' }, 'destructive'],
          [{ operation: 'create' }, 'write'],
        ],
      },
    ),
    tool(
      'queue',
      'Supports work on queues.',
      'destructive',
      { operation: 'peek|purge = purge', name: 'string' },
      {
        calls: [
          [{ name: 'a' }, 'destructive'],
          [{ name: 'a', operation: 'peek' }, 'read'],
        ],
      },
    ),
    tool(
      'database',
      'Database operations.',
      'destructive',
      {
        'operation!': {
          type: 'object',
          properties: { type: { type: 'string', enum: ['read', 'delete', 'drop'] } },
        },
      },
      {
        calls: [
          [{ operation: { type: 'read' } }, 'read'],
          [{ operation: { type: 'drop' } }, 'destructive'],
          [{ operation: 'read' }, 'destructive'],
          [{ operation: null }, 'destructive'],
        ],
      },
    ),
    tool(
      'batch',
      'Performs several operations.',
      'destructive',
      {
        'operations!': {
          type: 'array',
          items: {
            type: 'object',
            properties: { action: { type: 'string', enum: ['get', 'update', 'delete'] } },
          },
        },
      },
      {
        calls: [
          [{ operations: [{ action: 'get' }] }, 'read'],
          [{ operations: [{ action: 'get' }, { action: 'delete' }] }, 'destructive'],
          [{ operations: [{}] }, 'destructive'],
          [{ operations: 'get' }, 'destructive'],
        ],
      },
    ),
    tool(
      'http_request',
      'Makes an HTTP request.',
      'execute',
      {
        'url!': 'string',
        'method!': 'GET|HEAD|POST|PUT|PATCH|DELETE',
        body: 'string',
      },
      {
        calls: [
          [{ url: 'u', method: 'GET' }, 'read'],
          [{ url: 'u', method: 'get' }, 'read'],
          [{ url: 'u', method: 'DELETE' }, 'execute'],
          [{ url: 'u', method: 'TRACE' }, 'execute'],
          [{ url: 'u' }, 'execute'],
        ],
      },
    ),
    tool(
      'api',
      'Calls the API.',
      'execute',
      { 'path!': 'string', method: 'string = GET' },
      {
        calls: [
          [{ path: 'u' }, 'read'],
          [{ path: 'u', method: 'POST' }, 'execute'],
        ],
      },
    ),
    tool(
      'crm',
      'Interact with the CRM.',
      'destructive',
      { 'operation!': 'string', data: 'object' },
      {
        calls: [
          [{ operation: 'list' }, 'destructive'],
          [{ operation: 'delete' }, 'destructive'],
        ],
      },
    ),
    tool(
      'cleanup_old',
      'Deletes old records.',
      'destructive',
      { dry_run: 'boolean' },
      {
        calls: [
          [{ dry_run: true }, 'read'],
          [{ dry_run: false }, 'destructive'],
          [{ dry_run: 'true' }, 'destructive'],
          [{}, 'destructive'],
        ],
      },
    ),
    tool(
      'get_history',
      'Gets the history of changes.',
      'read',
      { action: 'create|update|delete' },
      {
        calls: [
          [{ action: 'delete' }, 'read'],
          [{}, 'read'],
        ],
      },
    ),
    tool('search_tickets', 'Search tickets.', 'read', { 'query!': 'string', include_deleted: 'boolean' }),
    tool('assign_ticket', 'Assigns a ticket to an agent.', 'write', {
      'ticket!': 'string',
      'agent!': 'string',
    }),
  ),
  server(
    'lookup',
    tool('weather', 'Current weather of a city.', 'read', { 'city!': 'string' }),
    tool('crates', 'Information about a crate.', 'read', { 'name!': 'string' }),
    tool('search', 'Searches the documentation. Shares the parameters of the other tools.', 'read', {
      'query!': 'string',
    }),
    tool('company_profile', 'Profile of a company.', 'read', { 'symbol!': 'string' }),
    tool('dns_lookup', 'Resolves a name.', 'read', { 'name!': 'string' }),
    tool('geocode', 'Coordinates of an address.', 'read', { 'address!': 'string' }),
    tool('distance_matrix', 'Distances between places.', 'read', {
      'origins!': 'array',
      'destinations!': 'array',
    }),
    tool('hash_text', 'Computes a hash.', 'read', { 'text!': 'string' }),
    tool('encode_base64', 'Encodes a text.', 'read', { 'text!': 'string' }),
    tool('random_number', 'Returns a random number.', 'read', { min: 'integer', max: 'integer' }),
    tool('format_date', 'Formats a date.', 'read', { 'date!': 'string' }),
    tool('ask_question', 'Asks the documentation a question.', 'read', { 'question!': 'string' }),
    tool('recent_trades', 'Recent trades of a pair.', 'read', { 'pair!': 'string' }),
    tool('has_access', 'Whether the account has access.', 'read', { 'resource!': 'string' }),
    tool('compare_versions', 'Compares two versions. Use update_package to update or delete one.', 'read', {
      'a!': 'string',
      'b!': 'string',
    }),
    tool('frobnicate', 'Frobnicates a record and returns it.', 'destructive', { 'record_id!': 'string' }),
    tool('process_item', 'Processes an item and returns its status.', 'destructive', {
      'item_id!': 'string',
    }),
  ),
  server(
    'machines',
    tool('reboot_server', 'Reboots a server.', 'destructive', { 'id!': 'string' }),
    tool('resize_disk', 'Resizes a disk of a machine.', 'destructive', {
      'disk!': 'string',
      'size!': 'integer',
    }),
    tool('attach_volume', 'Attaches a volume to a machine.', 'write', {
      'volume!': 'string',
      'machine!': 'string',
    }),
    tool('create_vm', 'Creates a virtual machine.', 'write', { 'image!': 'string' }),
    tool('update_firewall_rule', 'Updates a rule of the firewall.', 'destructive', { 'rule!': 'string' }),
    tool('authorize_ingress', 'Adds an inbound rule to a security group.', 'destructive', {
      'group!': 'string',
      'cidr!': 'string',
    }),
    tool('set_bucket_acl', 'Sets the access of a bucket.', 'destructive', {
      'bucket!': 'string',
      'acl!': 'string',
    }),
    tool('silence_alert', 'Silences an alert.', 'destructive', { 'alert!': 'string', 'for!': 'string' }),
    tool('acknowledge_alert', 'Acknowledges an alert.', 'write', { 'alert!': 'string' }),
    tool('get_metrics', 'Query metrics with PromQL.', 'read', { 'query!': 'string' }),
    tool(
      'upload_file',
      'Uploads a file to a host.',
      'write',
      { 'path!': 'string', overwrite: 'boolean' },
      {
        calls: [
          [{ path: 'a' }, 'write'],
          [{ path: 'a', overwrite: true }, 'destructive'],
        ],
      },
    ),
    tool('move_arm', 'Moves the arm of the robot.', 'destructive', { 'x!': 'number', 'y!': 'number' }),
    tool('print_document', 'Prints a document on a printer.', 'destructive', { 'path!': 'string' }),
    tool('flash_firmware', 'Flashes firmware to a device.', 'destructive', {
      'device!': 'string',
      'image!': 'string',
    }),
    tool('tag_resource', 'Adds tags to a resource.', 'write', { 'arn!': 'string', 'tags!': 'object' }),
    tool('sync_folder', 'Makes the target equal to the source.', 'destructive', {
      'source!': 'string',
      'target!': 'string',
      delete: 'boolean',
    }),
    tool('evaluate_expression', 'Evaluates a mathematical expression.', 'read', { 'expression!': 'string' }),
    tool('run_python', 'Runs Python code.', 'execute', { 'code!': 'string' }),
    tool('invoke_function', 'Invokes a function.', 'execute', { 'name!': 'string', payload: 'object' }),
    tool('train_model', 'Starts a training job on billed GPUs.', 'destructive', { 'dataset!': 'string' }),
  ),
]
