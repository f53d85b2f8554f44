import type { Json } from './server/json.ts'

/** The settings with which what the published server of files writes and moves is undone. */
export const undoableFiles: Json = {
  write_file: {
    undo: {
      snapshot: 'read_text_file(path=$.args.path)',
      restore: 'write_file(path=$.args.path, content=$.snapshot.content)',
    },
  },
  move_file: { undo: 'move_file(source=$.args.destination, destination=$.args.source)' },
}
