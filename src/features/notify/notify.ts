/** The feature `notify`: tells people by mail, chat and push which calls wait for their approval. It has no part in calls. */
import { background } from '../../core/log.ts'
import { world } from '../../core/world.ts'
import { systemClock } from '../../durable/dispatcher.ts'
import type { Feature } from '../feature.ts'
import { publishing } from '../offers.ts'
import { type NotifySettings, notifySchema } from '../settings/notify.ts'
import { createChannels } from './channels.ts'
import { NoticeDeliveries } from './deliveries.ts'
import { QuietHours } from './quiet-hours.ts'

/** Tells people which calls wait for their approval. */
export const notify: Feature<NotifySettings | false> = {
  ...notifySchema,
  create: (settings, deps) => {
    const own = settings()
    if (!own || !own.channels) return {}
    const { channels, quiet = [], escalate } = own
    const deliveries = new NoticeDeliveries({
      deps,
      channels: createChannels(channels, deps.gateway.proxies),
      quiet: new QuietHours([quiet].flat()),
      ...(escalate && { escalate: { afterMs: escalate.after, to: [escalate.to].flat() } }),
      isOn: (upstream) => settings(upstream) !== false,
      clock: systemClock,
      random: () => world.random(),
    })
    return {
      offers: [
        publishing.offer((_upstream, { name, data }) => {
          // Approvers get events of their own about the same approval.
          if (name !== 'confirmation_pending' || data.role !== 'caller') return
          background(deliveries.requested(String(data.approval)), deps.log)
        }),
      ],
      start: () => deliveries.start(),
      close: () => deliveries.close(),
    }
  },
}
