/** What the exporters of spans and of metrics have in common. The library is loaded only if one of them is on. */
import type { Resource } from '@opentelemetry/resources'
import type { OtlpSettings } from '../core/settings.ts'
import { self } from '../core/identity.ts'

/** This service, as its spans and metrics name it. @throws an Error if the protocol or endpoint cannot be used */
export async function resourceOf({ resource, serviceName, problem }: OtlpSettings): Promise<Resource> {
  if (problem !== undefined) throw new Error(problem)
  const { resourceFromAttributes } = await import('@opentelemetry/resources')
  return resourceFromAttributes({
    ...resource,
    'service.name': serviceName,
    'service.version': self.version,
  })
}
