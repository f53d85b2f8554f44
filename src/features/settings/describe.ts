/** The settings of the features of the stage describe: how they are configured, without what they do. */
import type { SettingsIn } from '../../core/settings.ts'
import { defineSettings, flag, setting } from '../../core/setting-schemas.ts'
import { pauseSchema, sizeSchema } from '../../core/time/units.ts'

/** The settings of quotas in lists. */
export const quotaSchema = defineSettings({
  name: 'quota',
  isLeftToGateway: true,
  description:
    'Whether tool lists and the manifest contain the remaining quota of the caller, for tools with a rate limit or budget of their own and for servers that report their limit.',
})

/** The settings of the manifest, and where they are. */
export const manifestSchema = defineSettings({
  name: 'manifest',
  isLeftToGateway: true,
  description: 'The service manifest: what each tool does, costs and needs, in one document for programs.',
  properties: {
    ttl: setting(pauseSchema, '60s', 'How long a manifest may be cached.'),
    inline: setting(
      sizeSchema,
      '16KB',
      'The maximum size of a manifest that is sent when a client connects.',
    ),
    listed: {
      type: 'boolean',
      description: 'Whether `get_manifest` is listed as a tool; `meta_tools` decides if not given.',
    },
    compat: flag(
      true,
      'Whether the members of the manifest are also sent at the top level of the result of `get_manifest`.',
    ),
  },
})

/** The settings of the manifest: times in milliseconds, sizes in bytes. */
export type ManifestSettings = SettingsIn<typeof manifestSchema>

/** The settings of descriptions for authors of skills. */
export const dashdashSchema = defineSettings({
  name: 'dashdash',
  isLeftToGateway: true,
  description:
    'Descriptions of servers, tools and resources (purpose, effects, requirements) next to each entry, for agents and authors of skills.',
})

/** The settings of guides, and where they are. */
export const helpSchema = defineSettings({
  name: 'help',
  isLeftToGateway: true,
  description: 'Guides for agents: `ai_help`, and over HTTP `/ai-help`, `/llms.txt` and `/llms-full.txt`.',
  properties: {
    listed: {
      type: 'boolean',
      description: 'Whether `ai_help` is listed as a tool; `meta_tools` decides if not given.',
    },
    public: flag(false, 'Whether `/llms.txt` and `/llms-full.txt` can be read without authentication.'),
  },
})

/** The settings of guides. */
export type HelpSettings = SettingsIn<typeof helpSchema>

/** The settings of skills, and where they are. */
export const skillsSchema = defineSettings({
  name: 'skills',
  isLeftToGateway: true,
  description: 'A SKILL.md for each server, for agents that load skills.',
  properties: {
    listed: flag(
      false,
      'Whether each SKILL.md is also listed as a resource, for clients without support for skills. It can always be read by its URI, `skill://<name>/SKILL.md`.',
    ),
  },
})

/** The settings of skills. */
export type SkillSettings = SettingsIn<typeof skillsSchema>

/** The settings of documents for agents. */
export const agentProfileSchema = defineSettings({
  name: 'agent_profile',
  isLeftToGateway: true,
  default: 'off',
  description:
    'The prompts agent_brief and agent_prompt, and the resources use://auth, use://http-headers, project://version and doc://readme. By default `off`, and `on` in the corporate profile.',
})

/** The settings of the conformance suite. */
export const conformanceSchema = defineSettings({
  name: 'conformance',
  description:
    'The reports of tests: `/conformance`, its badges, and `get_conformance_report`. `gatehouse conformance` runs the suite for the extensions of the gateway, and `gatehouse test` tests the server. See [Conformance](conformance.md).',
  properties: {
    arguments: {
      type: 'object',
      additionalProperties: { type: 'object', errorMessage: 'must be a mapping of arguments' },
      errorMessage: 'must be a mapping of tools to their arguments',
      description:
        'Arguments with which the suite calls tools of the server, by tool. Tools that change something are called only with `--allow-writes`. See [Conformance](conformance.md).',
      examples: [{ write_file: { path: '/tmp/conformance.txt', content: 'text' } }],
    },
  },
})

/** The settings of proofs of identity. */
export const gatewayProofSchema = defineSettings({
  name: 'gateway_proof',
  default: 'on',
  description:
    'Whether the gateway proves its identity to a gateway in front of it that is configured with its key in `gateway_key`.',
})
