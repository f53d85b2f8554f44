/** How the form of errors is configured: its settings with their schema and defaults, and where they are. */
import type { SettingsIn } from '../../core/settings.ts'
import { compatSetting, defineSettings, flag } from '../../core/setting-schemas.ts'

/** The schema of the settings. */
export const errorsSchema = defineSettings({
  name: 'errors',
  description: 'Errors in one common form.',
  properties: {
    http_status: {
      enum: ['compatible', 'mapped'],
      description:
        'The HTTP status of errors of calls: 200, which every client accepts, or the status of the error. By default `compatible`, and `mapped` in the corporate profile.',
    },
    compat: compatSetting(
      'Whether the structured error is also sent at `error` of the result if a tool was not run, and if the tool itself failed: for clients that request it (`on`), or for all (`always`). With `always`, every refused call of a tool has a result, also where there is an error of JSON-RPC or an HTTP status otherwise.',
    ),
    hide_details: flag(
      false,
      'Whether errors and log messages of servers lose what is internal to them: stack traces, paths, hosts, queries with values, and what looks like a secret. Secrets of this configuration are always taken out, exactly. By default `false`, and `true` in the corporate profile.',
    ),
    documentation_hosts: {
      type: ['array', 'string'],
      items: { type: 'string', minLength: 1, errorMessage: 'must be a host name or glob' },
      default: [],
      errorMessage: 'must be a list of host names or globs',
      description: 'Hosts to which documentation links in errors may lead, besides the host of the server.',
    },
  },
})

/** The settings of errors. */
export type ErrorSettings = SettingsIn<typeof errorsSchema>
