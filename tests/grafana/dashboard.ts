// The type of a dashboard with Grafana's own panels `row`, `stat` and `timeseries` and queries of Prometheus, composed of the types
// in Grafana's schema library. `run.sh` appends the dashboard as a literal, so an unknown key, a misspelt option or a value of the
// wrong type is an error of the compiler.
import type { Dashboard, DataSourceRef, FieldConfig, GraphFieldConfig, Panel, RowPanel, VariableModel } from '@grafana/schema';
import type { Options as Stat } from '@grafana/schema/dist/esm/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen';
import type { FieldConfig as Series, Options as TimeSeries } from '@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen';

/** The same value as JSON has it: the text of an enum in place of its name. */
type Json<T> = T extends string ? `${T}` : T extends (infer E)[] ? Json<E>[] : T extends object ? { [K in keyof T]: Json<T[K]> } : T;
/** Options: Grafana adds the defaults of those that are missing. */
type Some<T> = T extends (infer E)[] ? Some<E>[] : T extends object ? { [K in keyof T]?: Some<T[K]> } : T;

/** A query, as Grafana's data source for Prometheus reads it; its type is not in the library. */
interface Query {
  refId: string;
  datasource: DataSourceRef;
  expr: string;
  legendFormat?: string;
  format?: 'time_series' | 'table' | 'heatmap';
  instant?: boolean;
  range?: boolean;
  interval?: string;
}

/** A variable: its `query` is `unknown` to the library, and the query's text, which the list of variables shows, is missing there.
 * `current` is empty until someone chooses. */
type Variable = Json<Omit<VariableModel, 'query' | 'current'>> & {
  query: string | { query: string; refId: string };
  definition?: string;
  current: Partial<NonNullable<VariableModel['current']>>;
};

interface Fields<Custom> {
  defaults: Omit<Some<Json<FieldConfig>>, 'custom'> & { custom?: Some<Json<Custom>> };
  overrides: { matcher: { id: string; options: string }; properties: { id: string; value: unknown }[] }[];
}

type Kind<Type extends string, Options, Custom> = Json<Omit<Panel, 'type' | 'options' | 'targets' | 'fieldConfig'>> & {
  id: number;
  type: Type;
  title: string;
  gridPos: Panel['gridPos'];
  options: Some<Json<Options>>;
  targets: Query[];
  fieldConfig: Fields<Custom>;
};

type Checked = Json<Omit<Dashboard, 'panels' | 'templating'>> & {
  templating: { list: Variable[] };
  panels: (Json<RowPanel> | Kind<'stat', Stat, Record<string, never>> | Kind<'timeseries', TimeSeries, Series & GraphFieldConfig>)[];
};

export const dashboard: Checked =
