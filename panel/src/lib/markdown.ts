// The Markdown of the documentation as HTML: headings, paragraphs, lists, tables, code, links. All text is escaped; other HTML
// than comments is left out.
import { DOCS } from './docs';
import { to } from './router.svelte';

const KNOWN = new Set(DOCS.map(([name]) => name));

export function render(markdown: string): string {
  const lines = markdown.split('\n');
  const html: string[] = [];
  let at = 0;
  const take = (belongs: (line: string) => boolean): string[] => {
    const from = at;
    while (at < lines.length && belongs(lines[at] ?? '')) at += 1;
    return lines.slice(from, at);
  };
  while (at < lines.length) {
    const line = lines[at] ?? '';
    const fence = /^(\s*)```/.exec(line);
    if (fence) {
      at += 1;
      const code = take((one) => !/^\s*```/.test(one));
      at += 1;
      html.push(`<pre tabindex="0">${escaped(code.map((one) => one.slice(fence[1]?.length ?? 0)).join('\n'))}</pre>`);
    } else if (/^#{1,4} /.test(line)) {
      at += 1;
      const level = Math.min(3, line.indexOf(' '));
      const text = line.slice(line.indexOf(' ') + 1);
      html.push(`<h${level} id="doc-${slug(text)}">${inline(text)}</h${level}>`);
    } else if (/^\s*\|/.test(line)) {
      html.push(table(take((one) => /^\s*\|/.test(one))));
    } else if (/^\s*([-*]|\d+\.) /.test(line)) {
      html.push(list(take((one) => one.trim() !== '' && (/^\s*([-*]|\d+\.) /.test(one) || /^\s/.test(one)))));
    } else if (line.trim() === '' || /^\s*</.test(line)) {
      at += 1;
    } else {
      html.push(`<p>${inline(take((one) => one.trim() !== '' && !/^(#{1,4} |\s*\||\s*```|\s*[-*] )/.test(one)).join(' '))}</p>`);
    }
  }
  return html.join('\n');
}

function list(lines: string[]): string {
  const items: string[] = [];
  for (const line of lines) {
    const begins = /^\s*(?:[-*]|\d+\.) (.*)/.exec(line);
    if (begins) items.push(begins[1] ?? '');
    else items.push(`${items.pop() ?? ''} ${line.trim()}`);
  }
  return `<ul>${items.map((item) => `<li>${inline(item)}</li>`).join('')}</ul>`;
}

function table(lines: string[]): string {
  const cells = (line: string) => line.trim().replace(/^\|/, '').replace(/\|$/, '').split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll('\\|', '|'));
  const [head = '', , ...rows] = lines;
  // A head without words is none.
  const tagOf = (tag: string, cell: string) => (cell === '' ? 'td' : tag);
  const row = (line: string, tag: string) => `<tr>${cells(line).map((cell) => `<${tagOf(tag, cell)}>${inline(cell)}</${tagOf(tag, cell)}>`).join('')}</tr>`;
  return `<div class="scroll-x" tabindex="0" role="group" aria-label="Table"><table><thead>${row(head, 'th')}</thead><tbody>${rows.map((line) => row(line, 'td')).join('')}</tbody></table></div>`;
}

/** Code, links, bold and italic words. */
function inline(text: string): string {
  return text.split(/(`[^`]*`)/).map((part) => {
    if (part.startsWith('`')) return `<code>${escaped(part.slice(1, -1))}</code>`;
    return escaped(part)
      .replace(/!\[[^\]]*\]\([^)]*\)/g, '')
      .replace(/\*\*([^*]+)\*\*/g, '<strong>$1</strong>')
      .replace(/(^|[\s(])\*([^*\s][^*]*)\*/g, '$1<em>$2</em>');
  }).join('').replace(/\*(<code>[^<]*<\/code>)\*/g, '<em>$1</em>').replace(/\[((?:[^\][]|<code>[^<]*<\/code>)*)\]\(([^)\s]+)\)/g, (_, label: string, target: string) => linked(label, target));
}

/** Pages that the binary has open here, and the web in another tab; other files are named only. */
function linked(label: string, target: string): string {
  if (/^https?:/.test(target)) return `<a href="${target}" rel="noreferrer" target="_blank">${label}</a>`;
  const [file = '', anchor] = target.split('#');
  const name = /^([\w-]+)\.md$/.exec(file)?.[1];
  if (name && KNOWN.has(name)) return `<a href="${to('docs', name, ...(anchor ? [anchor] : []))}">${label}</a>`;
  return label;
}

export const slug = (text: string) => text.toLowerCase().replace(/[^\w\s-]/g, '').trim().replace(/\s+/g, '-');

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}
