// The search in the documentation: its pages are fetched once, and cut into the parts below their headings.
import { DOCS } from './docs';
import { plainOf } from './settings';
import { slug } from './markdown';

export interface Part {
  page: string;
  title: string;
  heading: string;
  anchor: string;
  text: string;
}

export interface Hit extends Part {
  /** Some words around the first that was found. */
  before: string;
  match: string;
  after: string;
}

const MOST = 30;
/** Characters around what was found. */
const AROUND = 60;

let parts: Promise<Part[]> | null = null;

/** All parts of all pages. */
export function allParts(): Promise<Part[]> {
  parts ??= Promise.all(DOCS.map(async ([page, title]) => {
    const answer = await fetch(`docs/${page}.md`).catch(() => null);
    return answer?.ok ? partsOf(page, title, await answer.text()) : [];
  })).then((all) => all.flat());
  return parts;
}

function partsOf(page: string, title: string, markdown: string): Part[] {
  return markdown.split(/^(?=#{1,4} )/m).map((part) => {
    const [, heading = title, text = ''] = /^#{1,4} (.*)\n?([^]*)$/.exec(part) ?? [null, title, part];
    const plain = plainOf(text.replace(/<[^>]*>|[|*]/g, ' ')).replace(/\s+/g, ' ').trim();
    return { page, title, heading: plainOf(heading), anchor: slug(heading), text: plain };
  });
}

/** The parts that have all words, those with one in their heading first. */
export function search(all: Part[], wanted: string): Hit[] {
  const words = wanted.toLowerCase().split(/\s+/).filter(Boolean);
  const [first = ''] = words;
  return all
    .flatMap((part) => {
      const [heading, text] = [`${part.title} ${part.heading}`.toLowerCase(), part.text.toLowerCase()];
      if (!words.every((word) => heading.includes(word) || text.includes(word))) return [];
      const rank = words.filter((word) => heading.includes(word)).length;
      const at = Math.max(0, text.indexOf(first));
      const found = text.includes(first);
      return [{
        rank,
        ...part,
        before: (at > AROUND ? '…' : '') + part.text.slice(Math.max(0, at - AROUND), at),
        match: found ? part.text.slice(at, at + first.length) : '',
        after: part.text.slice(found ? at + first.length : 0, at + 2 * AROUND).replace(/\s\S*$/, ' …'),
      }];
    })
    .sort((a, b) => b.rank - a.rank)
    .slice(0, MOST);
}
