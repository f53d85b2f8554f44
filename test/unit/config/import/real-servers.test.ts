/** The configurations that the documentation of well-known servers gives: none of their secrets reaches the configuration. */
import { expect, test } from 'vitest'
import { importedFile, loadedServers } from '../../../support/imported.ts'

const npx = (...args: readonly string[]) => ({ command: 'npx', args: ['-y', ...args] })

/** Each server as documented, and its secrets by the variables that they get. */
const servers: readonly (readonly [
  name: string,
  entry: object,
  secrets: Readonly<Record<string, string>>,
])[] = [
  [
    'github',
    {
      command: 'docker',
      args: 'run -i --rm -e GITHUB_PERSONAL_ACCESS_TOKEN ghcr.io/github/github-mcp-server'.split(' '),
      env: { GITHUB_PERSONAL_ACCESS_TOKEN: 'canary' },
    },
    { GITHUB_PERSONAL_ACCESS_TOKEN: 'canary' },
  ],
  [
    'docker',
    { command: 'docker', args: ['run', '-i', '-e', 'API_TOKEN=canary1', '--env=DB_PASS=canary2', 'image'] },
    { DOCKER_API_TOKEN: 'canary1', DOCKER_DB_PASS: 'canary2' },
  ],
  [
    'notion',
    {
      ...npx('@notionhq/notion-mcp-server'),
      env: { OPENAPI_MCP_HEADERS: '{"Authorization": "Bearer canary", "Notion-Version": "2022-06-28" }' },
    },
    { OPENAPI_MCP_HEADERS: '{"Authorization": "Bearer canary", "Notion-Version": "2022-06-28" }' },
  ],
  [
    'notion-token',
    { ...npx('@notionhq/notion-mcp-server'), env: { NOTION_TOKEN: 'canary' } },
    { NOTION_TOKEN: 'canary' },
  ],
  [
    'postgres',
    npx('@modelcontextprotocol/server-postgres', 'postgresql://me:canary@localhost/mydb'),
    { POSTGRES_SECRET: 'postgresql://me:canary@localhost/mydb' },
  ],
  [
    'postgres-pro',
    {
      command: 'uvx',
      args: ['postgres-mcp', '--access-mode=restricted'],
      env: { DATABASE_URI: 'postgresql://me:canary@localhost:5432/db' },
    },
    { DATABASE_URI: 'postgresql://me:canary@localhost:5432/db' },
  ],
  [
    'mysql',
    { ...npx('mysql-mcp'), env: { MYSQL_HOST: 'db.example.com', MYSQL_USER: 'me', MYSQL_PASS: 'canary' } },
    { MYSQL_PASS: 'canary' },
  ],
  [
    'mssql',
    { ...npx('mssql-mcp'), env: { MSSQL_CONNECTION: 'Server=h;User Id=me;Password=canary;' } },
    { MSSQL_CONNECTION: 'Server=h;User Id=me;Password=canary;' },
  ],
  [
    'mongodb',
    npx('mongodb-mcp-server', '--connectionString', 'mongodb+srv://me:canary@c.example.net/db'),
    { MONGODB_CONNECTIONSTRING: 'mongodb+srv://me:canary@c.example.net/db' },
  ],
  [
    'redis',
    { command: 'uvx', args: ['redis-mcp-server', '--url', 'redis://:canary@localhost:6379/0'] },
    { REDIS_URL: 'redis://:canary@localhost:6379/0' },
  ],
  [
    'slack',
    {
      ...npx('@modelcontextprotocol/server-slack'),
      env: {
        SLACK_BOT_TOKEN: 'canary',
        SLACK_TEAM_ID: 'T01234567',
        SLACK_CHANNEL_IDS: 'C01234567, C76543210',
      },
    },
    { SLACK_BOT_TOKEN: 'canary' },
  ],
  [
    'slack-hook',
    { ...npx('hook'), env: { TARGET: 'https://hooks.slack.com/services/T0000/B0000/canary' } },
    { TARGET: 'https://hooks.slack.com/services/T0000/B0000/canary' },
  ],
  [
    'brave',
    npx('@brave/brave-search-mcp-server', '--transport', 'stdio', '--brave-api-key', 'canary'),
    { BRAVE_BRAVE_API_KEY: 'canary' },
  ],
  [
    'figma',
    npx('figma-developer-mcp', '--figma-api-key=canary', '--stdio'),
    { FIGMA_FIGMA_API_KEY: 'canary' },
  ],
  [
    'supabase',
    npx(
      '@supabase/mcp-server-supabase@latest',
      '--read-only',
      '--project-ref=abcdefgh',
      '--access-token',
      'canary',
    ),
    { SUPABASE_ACCESS_TOKEN: 'canary' },
  ],
  [
    'sentry',
    npx('@sentry/mcp-server@latest', '--access-token=canary', '--host=sentry.example.com'),
    { SENTRY_ACCESS_TOKEN: 'canary' },
  ],
  [
    'sentry-dsn',
    { ...npx('sentry'), env: { SENTRY_DSN: 'https://canary@o1.ingest.sentry.io/2' } },
    { SENTRY_DSN: 'https://canary@o1.ingest.sentry.io/2' },
  ],
  [
    'smithery',
    npx('@smithery/cli@latest', 'run', 'exa', '--config', String.raw`"{\"exaApiKey\":\"canary\"}"`),
    { SMITHERY_CONFIG: String.raw`"{\"exaApiKey\":\"canary\"}"` },
  ],
  [
    'remote',
    npx(
      'mcp-remote',
      'https://mcp.example.com/sse?api_key=canary1',
      '--header',
      'Authorization:Bearer canary2',
    ),
    { REMOTE_API_KEY: 'canary1', REMOTE_TOKEN: 'canary2' },
  ],
  [
    'shell',
    { command: 'bash', args: ['-c', 'DB_PASSWORD=canary exec server'] },
    { SHELL_DB_PASSWORD: 'canary exec server' },
  ],
  [
    'alarm',
    { ...npx('alarm'), env: { ALARM_PIN: '4711', DOOR_PWD: 'canary' } },
    { ALARM_PIN: '4711', DOOR_PWD: 'canary' },
  ],
  [
    'nested',
    { ...npx('nested'), env: { SETTINGS: '{"db":{"port":5432,"password":"canary"}}' } },
    { SETTINGS: '{"db":{"port":5432,"password":"canary"}}' },
  ],
]

test.each(servers)(
  'the secrets of %s are in .env alone, and the server gets what it had',
  (name, entry, secrets) => {
    const found = importedFile({ mcpServers: { [name]: entry } })
    expect(Object.fromEntries(found.env)).toEqual(secrets)
    expect(found.yaml).not.toMatch(/canary|4711/)
    const direct = importedFile({ mcpServers: { [name]: entry } }, { environment: {} })
    const reach = loadedServers(direct).get(name)?.reach
    const sent = JSON.stringify(
      reach?.kind === 'command' && [reach.args, Object.values(reach.env).map((value) => value.reveal())],
    )
    for (const value of Object.values(secrets)) expect(sent).toContain(JSON.stringify(value).slice(1, -1))
  },
)

test.each([
  ['SPIN', 'fast'],
  ['COMPASS', 'north'],
  ['KEYBOARD', 'de'],
  ['SETTINGS', '{"region":"eu","auth":true,"items":[1]}'],
  ['FILTERS', 'status=open&page=2'],
  ['HEADERS', '{"Authorization":"Bearer ${TOKEN}"}'],
  ['COMMAND', 'API_TOKEN=$API_TOKEN run'],
])('%s with %s is no secret', (name, value) => {
  const { env } = importedFile(
    { mcpServers: { one: { command: 'x', env: { [name]: value } } } },
    { file: '/home/me/.mcp.json', environment: { TOKEN: 'canary' } },
  )
  expect([...env]).toEqual([])
})
