// What real servers say when something fails: each text was got by running the server named, or stands in its published
// source. A server that says something else belongs here with its text before its meaning is put into the code.

/** A failed result of a tool: the server, its first text, and the code it means. */
export const toolTexts: readonly (readonly [server: string, text: string, code: string])[] = [
  ['TypeScript SDK 1.32', 'MCP error -32602: Tool nope not found', 'UNKNOWN_TOOL'],
  [
    'TypeScript SDK 1.32',
    'MCP error -32602: Input validation error: Invalid arguments for tool get-sum: Invalid input: expected number, received string at a',
    'INVALID_INPUT',
  ],
  ['TypeScript SDK 2.4', 'Tool nope not found', 'UNKNOWN_TOOL'],
  [
    'filesystem 2026.8',
    'Access denied - path outside allowed directories: /etc/passwd not in /tmp/root',
    'PERMISSION_DENIED',
  ],
  [
    'filesystem 2026.8',
    'Access denied - path outside allowed directories: /home/me/timeout/not found.txt not in /tmp/root',
    'PERMISSION_DENIED',
  ],
  ['filesystem 2026.8', "ENOENT: no such file or directory, open '/tmp/root/none.txt'", 'RESOURCE_NOT_FOUND'],
  [
    'filesystem 2026.8',
    "ENOENT: no such file or directory, open '/permission/rate-limit'",
    'RESOURCE_NOT_FOUND',
  ],
  ['filesystem 2026.8', 'EISDIR: illegal operation on a directory, read', 'INVALID_INPUT'],
  ['filesystem 2026.8', "ENOTDIR: not a directory, scandir '/tmp/root/a.txt'", 'INVALID_INPUT'],
  ['filesystem 2026.8', "EEXIST: file already exists, mkdir '/tmp/root/a.txt'", 'CONFLICT'],
  ['filesystem 2026.8', "EACCES: permission denied, open '/tmp/root/timeout'", 'PERMISSION_DENIED'],
  ['filesystem 2026.8', 'Could not find exact match for edit:\nzzz', 'INVALID_INPUT'],
  ['filesystem 2026.8', 'Cannot specify both head and tail parameters simultaneously', 'INVALID_INPUT'],
  ['memory 2026.8', 'Entity with name nope not found', 'RESOURCE_NOT_FOUND'],
  ['Python mcp 1.30', 'Unknown tool: nope', 'UNKNOWN_TOOL'],
  [
    'Python mcp 1.30',
    "Error executing tool add: 2 validation errors for addArguments\na\n  Input should be a valid integer [type=int_parsing, input_value='timeout not found', input_type=str]",
    'INVALID_INPUT',
  ],
  [
    'Python mcp 1.30',
    "Error executing tool boom: [Errno 13] Permission denied: '/root/not found'",
    'PERMISSION_DENIED',
  ],
  [
    'Python mcp 1.30',
    "Error executing tool boom: [Errno 2] No such file or directory: '/root/x'",
    'RESOURCE_NOT_FOUND',
  ],
  ['Python mcp 1.30', 'Error executing tool boom: timed out', 'OPERATION_TIMEOUT'],
  ['Python mcp 2.3', 'Error executing tool boom', 'UPSTREAM_ERROR'],
  ['Python fastmcp 4.1', "Unknown tool: 'nope'", 'UNKNOWN_TOOL'],
  [
    'Python fastmcp 4.1',
    '2 validation errors for call[add]\na\n  Missing required argument',
    'INVALID_INPUT',
  ],
  [
    'Python fastmcp 4.1',
    "Error calling tool 'boom': [Errno 13] Permission denied: '/root/x'",
    'PERMISSION_DENIED',
  ],
  ['Python fastmcp 4.1', "Error calling tool 'boom': bad thing", 'UPSTREAM_ERROR'],
  [
    'Go SDK 1.8',
    'validating "arguments": validating root: required: missing properties: ["text"]',
    'INVALID_INPUT',
  ],
  ['rmcp 3.11', 'failed to deserialize parameters: missing field `text`', 'INVALID_INPUT'],
  [
    'GitHub (Go)',
    'failed to get issue: GET https://api.github.com/repos/a/b/issues/9: 404 Not Found []',
    'RESOURCE_NOT_FOUND',
  ],
  [
    'GitHub (Go)',
    'failed to list: GET https://api.github.com/user/repos: 401 Bad credentials []',
    'AUTHENTICATION_REQUIRED',
  ],
  [
    'GitHub (Go)',
    'failed to search: GET https://api.github.com/search/code: 403 API rate limit exceeded for user ID 1. []',
    'RATE_LIMIT_EXCEEDED',
  ],
  [
    'GitHub (Go)',
    'failed to create issue: POST https://api.github.com/repos/a/b/issues: 422 Validation Failed []',
    'INVALID_INPUT',
  ],
  [
    'Notion 2.5',
    '{"status":"error","object":"error","code":"object_not_found","message":"Could not find page with ID: 1. Make sure the page is shared."}',
    'RESOURCE_NOT_FOUND',
  ],
  [
    'Notion 2.5',
    '{"object":"error","status":401,"code":"unauthorized","message":"API token is invalid."}',
    'AUTHENTICATION_REQUIRED',
  ],
  [
    'Playwright 0.0.83',
    '### Error\nError: Ref e12 not found in the current page snapshot. Try capturing new snapshot.',
    'RESOURCE_NOT_FOUND',
  ],
  [
    'Playwright 0.0.83',
    '### Error\nTimeoutError: locator.click: Timeout 5000ms exceeded.',
    'OPERATION_TIMEOUT',
  ],
  ['fetch (Python)', 'Failed to fetch https://example.com/x - status code 404', 'RESOURCE_NOT_FOUND'],
  ['fetch (Python)', 'Failed to fetch https://example.com/x - status code 403', 'PERMISSION_DENIED'],
  ['axios', 'Request failed with status code 401', 'AUTHENTICATION_REQUIRED'],
  ['SQLite (Python)', 'Database error: no such table: nope', 'RESOURCE_NOT_FOUND'],
  ['PostgreSQL', 'relation "nope" does not exist', 'RESOURCE_NOT_FOUND'],
]

/** An answer to a request for something that is not there, or not right: the server, the method, the error, the code. */
export const errorAnswers: readonly (readonly [
  server: string,
  method: 'resources/read' | 'prompts/get' | 'tools/call' | 'completion/complete',
  error: { readonly code: number; readonly message: string; readonly data?: unknown },
  code: string,
])[] = [
  [
    'TypeScript SDK 1.32',
    'resources/read',
    { code: -32602, message: 'MCP error -32602: Resource test://missing not found' },
    'RESOURCE_NOT_FOUND',
  ],
  [
    'TypeScript SDK 2.4, older revisions',
    'resources/read',
    { code: -32602, message: 'Resource not found: test://missing', data: { uri: 'test://missing' } },
    'RESOURCE_NOT_FOUND',
  ],
  [
    'TypeScript SDK 1.32, a handler that throws',
    'resources/read',
    { code: -32603, message: "ENOENT: no such file or directory, open '/srv/x'" },
    'RESOURCE_NOT_FOUND',
  ],
  [
    'Python mcp 1.30',
    'resources/read',
    { code: 0, message: 'Unknown resource: test://missing' },
    'RESOURCE_NOT_FOUND',
  ],
  [
    'Python mcp 2.3',
    'resources/read',
    { code: -32602, message: 'Unknown resource: test://missing', data: { uri: 'test://missing' } },
    'RESOURCE_NOT_FOUND',
  ],
  [
    'Python fastmcp 3.4',
    'resources/read',
    { code: -32002, message: "Resource not found: Unknown resource: 'test://missing'" },
    'RESOURCE_NOT_FOUND',
  ],
  [
    'Python fastmcp 4.1',
    'resources/read',
    { code: -32602, message: "Resource not found: 'test://missing'", data: { uri: 'test://missing' } },
    'RESOURCE_NOT_FOUND',
  ],
  [
    'Go SDK 1.8',
    'resources/read',
    { code: -32002, message: 'Resource not found', data: { uri: 'test://missing' } },
    'RESOURCE_NOT_FOUND',
  ],
  [
    'rmcp 3.11',
    'resources/read',
    { code: -32002, message: 'resource_not_found', data: { uri: 'test://missing' } },
    'RESOURCE_NOT_FOUND',
  ],
  [
    'Python mcp 1.30',
    'resources/read',
    { code: 0, message: 'Error reading resource test://missing: disk on fire' },
    'UPSTREAM_ERROR',
  ],
  [
    'Python fastmcp 4.1',
    'resources/read',
    { code: -32603, message: "Error reading resource 'test://missing': disk on fire" },
    'UPSTREAM_ERROR',
  ],
  [
    'TypeScript SDK 1.32',
    'prompts/get',
    { code: -32602, message: 'MCP error -32602: Prompt nope not found' },
    'INVALID_INPUT',
  ],
  ['Python mcp 1.30', 'prompts/get', { code: 0, message: 'Unknown prompt: nope' }, 'INVALID_INPUT'],
  [
    'Python mcp 1.30',
    'prompts/get',
    { code: 0, message: "Missing required arguments: {'name'}" },
    'INVALID_INPUT',
  ],
  ['Go SDK 1.8', 'prompts/get', { code: -32602, message: 'unknown prompt "nope"' }, 'INVALID_INPUT'],
  ['rmcp 3.11', 'prompts/get', { code: -32602, message: "prompt 'nope' not found" }, 'INVALID_INPUT'],
  ['Go SDK 1.8', 'tools/call', { code: -32602, message: 'unknown tool "nope"' }, 'UNKNOWN_TOOL'],
  ['rmcp 3.11', 'tools/call', { code: -32602, message: 'tool not found' }, 'UNKNOWN_TOOL'],
  ['any', 'tools/call', { code: -32603, message: 'rate limit' }, 'UPSTREAM_ERROR'],
  [
    'TypeScript SDK 1.32',
    'completion/complete',
    { code: -32602, message: 'MCP error -32602: Resource template test://{x} not found' },
    'INVALID_INPUT',
  ],
]
