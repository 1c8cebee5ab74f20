//! From the description of a graph to one that runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use logue_graph::{
    CompileError, CompiledGraph, END, EdgeTarget, ErrorPolicy, FanOut, Field, FieldType,
    GraphBuilder, Mapping, ParallelBranches, Reducer, StateSchema,
};
use logue_harness::chat::messages_field;
use serde_json::Value;

use crate::script::{ScriptMiddleware, ScriptNode, raised};
use crate::seen::{Ids, Seen, Watch};
use crate::vocabulary::{
    BranchesDef, Case, Directive, EdgeDef, FanOutDef, FieldDef, GraphDef, MappingDef, NodeDef,
    Ordered, ReadError, StateDef, UNKNOWN,
};

/// Graphs that contain themselves would never end.
const MAX_DEPTH: usize = 16;

/// The components of the graphs of a case.
pub(crate) struct Builder {
    subgraphs: BTreeMap<String, GraphDef>,
    seen: Arc<Seen>,
    ids: Arc<Ids>,
    max_steps: Option<usize>,
    /// Whether an observer of spans is attached.
    traces: bool,
}

/// The reason that a graph cannot be built.
#[derive(Debug)]
pub(crate) enum BuildError {
    /// The case contains an unknown word.
    Words(ReadError),
    /// The graph is invalid.
    Graph(CompileError),
}

impl Builder {
    pub(crate) fn new(case: &Case, seen: &Arc<Seen>, ids: &Arc<Ids>) -> Self {
        let mut subgraphs = BTreeMap::new();
        for (name, sub) in &case.subgraphs.0 {
            subgraphs.insert(name.clone(), sub.clone().into());
        }
        if let Some(sub) = &case.subgraph {
            let name = sub.name.clone().unwrap_or_else(|| "subgraph".to_owned());
            subgraphs.insert(name, sub.clone().into());
        }
        Self {
            subgraphs,
            seen: Arc::clone(seen),
            ids: Arc::clone(ids),
            max_steps: case.limits.as_ref().and_then(|limits| limits.max_steps),
            traces: case
                .observers
                .iter()
                .any(|observer| observer.behavior.as_deref() == Some("otel")),
        }
    }

    /// The graph of the case, watched.
    pub(crate) fn outermost(&self, def: &GraphDef) -> Result<CompiledGraph, BuildError> {
        let mut builder = self.graph(def, 0)?;
        builder = builder.observe(Watch(Arc::clone(&self.seen)));
        if let Some(limit) = self.max_steps {
            builder = builder.max_steps(limit);
        }
        if self.traces {
            builder = builder.with_signal_metadata_in_spans();
        }
        builder
            .compile(Arc::clone(&self.ids))
            .map_err(BuildError::Graph)
    }

    fn graph(&self, def: &GraphDef, depth: usize) -> Result<GraphBuilder, BuildError> {
        if depth > MAX_DEPTH {
            return Err(unknown("the graphs contain each other".to_owned()));
        }
        let mut builder = GraphBuilder::new(schema(&def.state)?).entry(&def.entry);
        for (name, node) in &def.nodes.0 {
            builder = self.node(builder, name, node, depth)?;
        }
        for edge in &def.edges {
            builder = add_edge(builder, edge)?;
        }
        Ok(builder)
    }

    fn node(
        &self,
        mut builder: GraphBuilder,
        name: &str,
        node: &NodeDef,
        depth: usize,
    ) -> Result<GraphBuilder, BuildError> {
        let mut subgraph = None;
        let mut mapping = MappingDef::default();
        let mut fan_out = None;
        let mut branches = None;
        for directive in &node.directives {
            match directive {
                Directive::Subgraph(name) => subgraph = Some(name),
                Directive::Mapping(def) => mapping = def.clone(),
                Directive::Outputs(outputs) => mapping.outputs = Some(outputs.clone()),
                Directive::FanOut(def) => fan_out = Some(def),
                Directive::Branches(def) => branches = Some(def),
                Directive::Middleware(all) => {
                    for script in all {
                        let middleware = ScriptMiddleware {
                            script: script.clone(),
                            seen: Arc::clone(&self.seen),
                        };
                        builder = builder.wrap_node(name, middleware);
                    }
                }
                _ => {}
            }
        }
        Ok(match (subgraph, fan_out, branches) {
            (Some(sub), None, None) => {
                builder.add_subgraph(name, self.inside(sub, depth)?, mapped(&mapping))
            }
            (None, Some(def), None) => builder.add_fan_out(name, self.fan_out(def, depth)?),
            (None, None, Some(def)) => builder.add_branches(name, self.branches(def, depth)?),
            (None, None, None) => builder.add_node(
                name,
                ScriptNode {
                    directives: node.directives.clone(),
                    seen: Arc::clone(&self.seen),
                },
            ),
            _ => {
                return Err(unknown(format!(
                    "the node `{name}` is several kinds at once"
                )));
            }
        })
    }

    fn inside(&self, name: &str, depth: usize) -> Result<CompiledGraph, BuildError> {
        let Some(def) = self.subgraphs.get(name) else {
            return Err(unknown(format!("there is no subgraph `{name}`")));
        };
        let builder = self.graph(def, depth + 1)?;
        builder
            .compile(Arc::clone(&self.ids))
            .map_err(BuildError::Graph)
    }

    fn fan_out(&self, def: &FanOutDef, depth: usize) -> Result<FanOut, BuildError> {
        const ITEM: &str = "<fan_out_item>";
        let graph = self.inside(&def.subgraph, depth)?;
        let mapping = def.mapping.clone().unwrap_or_default();
        let inputs = mapping.inputs.unwrap_or_default().0;
        let by_mapping = inputs.iter().find(|(_, from)| from == ITEM);
        let item_field = def.item_field.as_ref();
        let Some(item_field) = item_field.or(by_mapping.map(|(field, _)| field)) else {
            return Err(unknown(
                "the fan-out names no field for the item".to_owned(),
            ));
        };
        let mut fan_out = FanOut::new(graph, &def.items_field, item_field)
            .error_policy(policy(def.error_policy.as_deref())?);
        for (field, from) in inputs.iter().filter(|(_, from)| from != ITEM) {
            fan_out = fan_out.with_input(field, from);
        }
        match (&def.target_field, &def.collect_field) {
            (Some(target), Some(collect)) => fan_out = fan_out.collect(target, collect),
            (Some(target), None) => fan_out = fan_out.collect_states(target),
            (None, Some(_)) => {
                return Err(unknown("the fan-out collects into no field".to_owned()));
            }
            (None, None) => {}
        }
        for (target, collect) in mapping.outputs.unwrap_or_default().0 {
            fan_out = fan_out.collect(target, collect);
        }
        if let Some(field) = &def.errors_field {
            fan_out = fan_out.errors_to(field);
        }
        if let Some(limit) = def.concurrency {
            fan_out = fan_out.concurrency(limit);
        }
        Ok(fan_out)
    }

    fn branches(&self, def: &BranchesDef, depth: usize) -> Result<ParallelBranches, BuildError> {
        let policy = policy(def.error_policy.as_deref())?;
        let mut branches = ParallelBranches::new().error_policy(policy);
        for (name, branch) in &def.branches.0 {
            let graph = self.inside(&branch.subgraph, depth)?;
            let mapping = MappingDef {
                inputs: branch.inputs.clone(),
                outputs: branch.outputs.clone(),
            };
            branches = branches.branch(name, graph, mapped(&mapping));
        }
        if let Some(field) = &def.errors_field {
            branches = branches.errors_to(field);
        }
        Ok(branches)
    }
}

fn mapped(def: &MappingDef) -> Mapping {
    let mut mapping = Mapping::new();
    for (sub, parent) in def.inputs.iter().flat_map(|inputs| &inputs.0) {
        mapping = mapping.with_input(sub, parent);
    }
    if def
        .outputs
        .as_ref()
        .is_some_and(|outputs| outputs.0.is_empty())
    {
        return mapping.without_outputs();
    }
    for (parent, sub) in def.outputs.iter().flat_map(|outputs| &outputs.0) {
        mapping = mapping.with_output(parent, sub);
    }
    mapping
}

fn policy(name: Option<&str>) -> Result<ErrorPolicy, BuildError> {
    match name {
        None | Some("fail_fast") => Ok(ErrorPolicy::FailFast),
        Some("collect") => Ok(ErrorPolicy::Collect),
        Some(other) => Err(unknown(format!("there is no error policy `{other}`"))),
    }
}

fn schema(def: &StateDef) -> Result<StateSchema, BuildError> {
    let mut schema = StateSchema::new();
    for (name, field) in &def.fields.0 {
        schema = schema.with(self::field(name, field)?);
    }
    Ok(match &def.schema_version {
        Some(version) => schema.with_version(version),
        None => schema,
    })
}

fn field(name: &str, def: &FieldDef) -> Result<Field, BuildError> {
    let Some(kind) = FieldType::parse(&def.kind) else {
        return Err(unknown(format!("there is no type `{}`", def.kind)));
    };
    let reducer = match &def.reducer {
        None => Reducer::default(),
        Some(name) => {
            Reducer::parse(name).ok_or_else(|| unknown(format!("there is no reducer `{name}`")))?
        }
    };
    let is_conversation = name == "messages"
        && reducer == Reducer::Append
        && kind == FieldType::list_of("ChatMessage");
    let field = if is_conversation {
        messages_field()
    } else {
        Field::new(name, kind).with_reducer(reducer)
    };
    Ok(match &def.default {
        Some(default) => field.with_default(default.clone()),
        None => field,
    })
}

fn add_edge(builder: GraphBuilder, edge: &EdgeDef) -> Result<GraphBuilder, BuildError> {
    match (&edge.to, &edge.by_field, &edge.targets) {
        (Some(to), None, None) => Ok(builder.add_edge(&edge.from, target(to))),
        (None, Some(field), Some(Ordered(targets))) => {
            let field = field.clone();
            let routes = targets.clone();
            let all: Vec<EdgeTarget> = targets.iter().map(|(_, to)| target(to)).collect();
            let (raises, strays) = (edge.raises.clone(), edge.strays_to.clone());
            let chosen = move |state: &logue_graph::State| {
                let value = state.get(&field).map(logue_graph::FieldValue::to_json);
                let value = match value {
                    Some(Value::String(text)) => text,
                    Some(value) => value.to_string(),
                    None => String::new(),
                };
                let named = routes.iter().find(|(when, _)| *when == value);
                let other = routes.iter().find(|(when, _)| when == "else");
                match (named.or(other), &raises, &strays) {
                    (Some((_, to)), _, _) => Ok(target(to)),
                    (None, Some(raises), _) => Err(raised(raises)),
                    (None, None, Some(strays)) => Ok(target(strays)),
                    (None, None, None) => Ok(END),
                }
            };
            Ok(builder.add_conditional_edge(&edge.from, all, chosen))
        }
        _ => Err(unknown(format!(
            "the edge out of `{}` has neither `to` nor `by_field` with `targets`",
            edge.from
        ))),
    }
}

fn target(name: &str) -> EdgeTarget {
    match name {
        "END" => END,
        name => EdgeTarget::node(name),
    }
}

fn unknown(message: String) -> BuildError {
    BuildError::Words(ReadError {
        category: UNKNOWN,
        message,
    })
}
