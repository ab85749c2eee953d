// Names within sentences, as Weir's own texts have them: nothing that a client has chosen reads like Weir's words.

/** A name in quotes; a quote in it is doubled. */
export const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`;

/** A name of a user or a pool: as it is where it is one plain word. */
export const identifier = (name: string): string => (/^[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?$/.test(name) ? name : quoted(name));
