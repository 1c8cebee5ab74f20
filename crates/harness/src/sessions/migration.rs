//! Migrations of stored states to the schema version of a graph.
//!
//! A migration is an edge between two versions, and a state takes the shortest chain of them. Two
//! equally short chains would give two states, so they are an error and not a choice.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

type Fields = Map<String, Value>;
/// The versions that a step begins and ends at.
type Edge = (String, String);
type Step<'a> = (&'a Edge, &'a Migrate);
type Migrate = Arc<dyn Fn(Fields) -> Result<Fields, String> + Send + Sync>;

/// The migrations that a graph knows. The version of a record that has none is the empty text.
#[derive(Clone, Default)]
pub struct Migrations {
    edges: BTreeMap<Edge, Migrate>,
}

/// The reason that a state could not reach the version of the graph.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MigrationError {
    /// No chain leads from one version to the other.
    #[error(
        "no migration leads from version {from_version:?} to {to_version:?}; {registry_description}"
    )]
    Missing {
        /// The version that the state has.
        from_version: String,
        /// The version that the graph has.
        to_version: String,
        /// The number of registered migrations.
        registered_migrations_count: usize,
        /// The registered migrations.
        registry_description: String,
    },
    /// Two chains of the same length lead there, or one step was registered twice.
    #[error(
        "several migrations lead from version {from_version:?} to {to_version:?} equally directly"
    )]
    Ambiguous {
        /// The version at which the chains begin.
        from_version: String,
        /// The version at which the chains end.
        to_version: String,
    },
    /// A migration failed, and the chain stopped there.
    #[error("the migration from version {from_version:?} to {to_version:?} failed: {cause}")]
    Failed {
        /// The version at which the failed step begins.
        from_version: String,
        /// The version at which the failed step ends.
        to_version: String,
        /// The cause of the failure.
        cause: String,
    },
}

impl MigrationError {
    /// The name of the error in the contract.
    pub const fn category(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "session_state_migration_missing",
            Self::Ambiguous { .. } => "session_state_migration_chain_ambiguous",
            Self::Failed { .. } => "session_state_migration_failed",
        }
    }
}

/// A state in the version that was wanted, and the steps that led there.
#[derive(Clone, Debug, PartialEq)]
pub struct Migrated {
    /// The fields.
    pub fields: Fields,
    /// Each step's two versions, in order; none if the versions were equal.
    pub steps: Vec<(String, String)>,
}

impl Migrations {
    /// No migrations.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a step.
    ///
    /// # Errors
    /// There is one between the two versions already.
    pub fn with<F>(mut self, from: &str, to: &str, migrate: F) -> Result<Self, MigrationError>
    where
        F: Fn(Fields) -> Result<Fields, String> + Send + Sync + 'static,
    {
        let edge = (from.to_owned(), to.to_owned());
        if self.edges.contains_key(&edge) {
            return Err(MigrationError::Ambiguous {
                from_version: edge.0,
                to_version: edge.1,
            });
        }
        self.edges.insert(edge, Arc::new(migrate));
        Ok(self)
    }

    /// Migrates a state between two versions by the shortest chain. Equal versions need no
    /// migration.
    ///
    /// # Errors
    /// In this order: several shortest chains, none, a step that fails.
    pub fn migrate(
        &self,
        from: Option<&str>,
        to: Option<&str>,
        fields: Fields,
    ) -> Result<Migrated, MigrationError> {
        if from == to {
            return Ok(Migrated {
                fields,
                steps: Vec::new(),
            });
        }
        let (from, to) = (from.unwrap_or_default(), to.unwrap_or_default());
        let chain = self.chain(from, to)?;
        let mut migrated = Migrated {
            fields,
            steps: Vec::with_capacity(chain.len()),
        };
        for ((from, to), migrate) in chain {
            let fields = migrate(migrated.fields).map_err(|cause| MigrationError::Failed {
                from_version: from.clone(),
                to_version: to.clone(),
                cause,
            })?;
            migrated.fields = fields;
            migrated.steps.push((from.clone(), to.clone()));
        }
        Ok(migrated)
    }

    /// The only shortest chain, breadth first: how far each version is, and by how many ways.
    fn chain(&self, from: &str, to: &str) -> Result<Vec<Step<'_>>, MigrationError> {
        let mut reached: HashMap<&str, Way<'_>> = HashMap::from([(from, Way::start())]);
        let mut front = vec![from];
        while !front.is_empty() && !reached.contains_key(to) {
            let mut next: Vec<&str> = Vec::new();
            let mut found: HashMap<&str, Way<'_>> = HashMap::new();
            for at in front {
                let ways = reached.get(at).map_or(0, |way| way.ways);
                for (edge, migrate) in self.edges.iter().filter(|((from, _), _)| from == at) {
                    let target = edge.1.as_str();
                    if reached.contains_key(target) {
                        continue;
                    }
                    let way = found.entry(target).or_insert_with(|| {
                        next.push(target);
                        Way {
                            ways: 0,
                            last: Some((edge, migrate)),
                        }
                    });
                    way.ways = way.ways.saturating_add(ways);
                }
            }
            reached.extend(found);
            front = next;
        }
        let Some(way) = reached.get(to) else {
            return Err(MigrationError::Missing {
                from_version: from.to_owned(),
                to_version: to.to_owned(),
                registered_migrations_count: self.edges.len(),
                registry_description: self.describe(),
            });
        };
        if way.ways > 1 {
            return Err(MigrationError::Ambiguous {
                from_version: from.to_owned(),
                to_version: to.to_owned(),
            });
        }
        let mut chain = Vec::new();
        let mut at = to;
        while let Some((edge, migrate)) = reached.get(at).and_then(|way| way.last) {
            chain.push((edge, migrate));
            at = &edge.0;
        }
        chain.reverse();
        Ok(chain)
    }

    fn describe(&self) -> String {
        if self.edges.is_empty() {
            return "no migrations are known".to_owned();
        }
        let edges = self
            .edges
            .keys()
            .map(|(from, to)| format!("{from:?} to {to:?}"));
        format!("known are {}", edges.collect::<Vec<_>>().join(", "))
    }
}

/// The number of shortest chains to a version, and the last step of one.
struct Way<'a> {
    ways: usize,
    last: Option<Step<'a>>,
}

impl Way<'_> {
    const fn start() -> Self {
        Self {
            ways: 1,
            last: None,
        }
    }
}

impl fmt::Debug for Migrations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.edges.keys()).finish()
    }
}
