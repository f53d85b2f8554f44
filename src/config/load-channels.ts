/** Loads the section `notify` alone, for the command that tries its channels: other sections may be invalid. */
import { dirname, resolve } from 'node:path'
import { isObject } from '../core/json/json.ts'
import type { Secret } from '../core/text/secret.ts'
import { type ChannelSettings, type NotifySettings, notifySchema } from '../features/settings/notify.ts'
import { readSections, type TextSource } from './load-sections.ts'
import { listenSchema } from './sections/listen.ts'
import { checkNotify } from './sections/notify.ts'
import { versionSchema } from './sections/profile.ts'

/** The channels of a configuration by name, and the URL at which people reach the gateway, if it is known. */
interface LoadedChannels {
  readonly channels: Readonly<Record<string, ChannelSettings>>
  readonly publicUrl?: string
  readonly secrets: readonly Secret[]
}

/** @throws ConfigError with all problems of them */
export function loadChannels(text: string, { file, env }: TextSource): LoadedChannels {
  const { values, secrets } = readSections(
    text,
    {
      version: versionSchema,
      listen: listenSchema,
      notify: {
        ...notifySchema.schema,
        additionalProperties: false,
        errorMessage: 'must be off, or a mapping with `channels:`',
      },
    },
    {
      file,
      env,
      directory: dirname(resolve(file)),
      select: ({ notify, ...others }) => (isObject(notify) ? { ...others, notify } : others),
      check: ({ notify, listen }) => {
        const publicUrl = isObject(listen) ? listen.public_url : undefined
        return checkNotify(notify, { upstreams: {}, publicUrl }).problems
      },
    },
  )
  // The values are validated by the schemas, which have these types and defaults.
  const { listen, notify } = values as {
    readonly listen: { readonly public_url?: string }
    readonly notify?: NotifySettings | 'off'
  }
  const { public_url: publicUrl } = listen
  return {
    channels: isObject(notify) ? (notify.channels ?? {}) : {},
    ...(publicUrl !== undefined && { publicUrl }),
    secrets,
  }
}
