/**
 * Which process has a session, in what its client keeps: every process finds it there without the store, also a session that the
 * store does not have yet. It is sealed, because ids and addresses of processes are of no concern to clients.
 */
import { isObject } from '../../../core/json/json.ts'
import type { Seal, SealUse } from '../../../core/seal.ts'
import type { SessionOwner } from '../../../records/client-sessions.ts'

/** The process in which a session began, and the server that it is for, if it is for one. */
export interface SessionPlace {
  readonly owner: SessionOwner
  readonly upstream: string | undefined
}

/** Seals the places of sessions, and opens those of other processes that share the store. */
export interface SessionPlaces {
  /** This process as the place of a session, in base64url; undefined before the shared key is known. */
  close(session: string, upstream?: string): string | undefined
  /** The place of a session; undefined for a text that is not one, or is one of another session. Never throws. */
  open(session: string, text: string): SessionPlace | undefined
}

/** The places of sessions for the process `self`; `seal` has the key that the processes share. */
export function createPlaces(self: SessionOwner, seal: Seal): SessionPlaces {
  return {
    close: (session, upstream) => {
      const place: SessionPlace = { owner: self, upstream }
      return seal.isShared() ? seal.close(place, useOf(session), 0) : undefined
    },

    open: (session, text) => {
      const opened = seal.open(text, useOf(session))
      if (opened.kind !== 'valid' || !isObject(opened.value)) return undefined
      const { owner, upstream } = opened.value
      if (!isObject(owner) || typeof owner.id !== 'string' || typeof owner.address !== 'string')
        return undefined
      const { id, address } = owner
      return { owner: { id, address }, upstream: typeof upstream === 'string' ? upstream : undefined }
    },
  }
}

function useOf(session: string): SealUse {
  return { purpose: 'session-place', binding: session }
}
