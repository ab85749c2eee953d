// The figures of a cluster summed by node and by pool, and their orders.
import type { Cluster, ClusterNode, ClusterPool, ClusterShare } from '../../lib/types';

export interface Sum {
  share: number;
  floor: number;
  shortfall: number;
  /** Seconds; 0: no client waits. */
  oldest: number;
}

export type Pool = ClusterPool & Sum;
export type Part = Sum & { pool: string; node: string };

function sum(shares: ClusterShare[]): Sum {
  const of = (key: 'share' | 'floor' | 'shortfall') => shares.reduce((sum, share) => sum + share[key], 0);
  const oldest = shares.reduce((oldest, { oldest_wait_seconds }) => Math.max(oldest, oldest_wait_seconds), 0);
  return { share: of('share'), floor: of('floor'), shortfall: of('shortfall'), oldest };
}

/** The nodes with the sums of their shares; those that do not serve first, but those that have left last. */
export function nodesOf({ nodes, pools }: Cluster): (ClusterNode & Sum)[] {
  const shares = new Map<string, ClusterShare[]>(nodes.map(({ name }) => [name, []]));
  for (const share of pools.flatMap(({ shares }) => shares)) shares.get(share.node)?.push(share);
  const place: Record<ClusterNode['state'], number> = { lost: 0, 'name in use': 0, late: 1, member: 2, left: 3 };
  return nodes
    .map((node) => ({ ...node, ...sum(shares.get(node.name) ?? []) }))
    .sort((a, b) => place[a.state] - place[b.state]);
}

/** The pools of such a name with the sums of all nodes; those that lack the most first. */
export function poolsOf({ pools }: Cluster, search: string): Pool[] {
  const wanted = search.trim().toLowerCase();
  return pools
    .filter(({ name }) => name.toLowerCase().includes(wanted))
    .map((pool) => ({ ...pool, ...sum(pool.shares) }))
    .sort((a, b) => b.shortfall - a.shortfall);
}

/** What each node has of these pools. */
export function partsOf(pools: Pool[]): Part[] {
  return pools.flatMap(({ name, shares }) => shares.map((share) => ({ pool: name, node: share.node, ...sum([share]) })));
}

/** Why a node does not run the newest revision of the configuration; empty: it does. */
export function behind({ config_revision, config_refused, state }: ClusterNode, nodes: ClusterNode[]): string {
  if (config_refused) return `refused ${config_refused}`;
  const newest = Math.max(...nodes.map((node) => node.config_revision));
  return config_revision < newest && state !== 'left' ? `has not adopted revision ${newest} yet` : '';
}
