//! One statement with its parameters, which may have to be sent again.

use std::time::Duration;

use tokio_postgres::types::{ToSql, Type};

/// The maximum time of a statement.
const STATEMENT: Duration = Duration::from_secs(30);
/// The maximum time of a step of a turn.
///
/// Its connection then counts as silent. It is shorter than the time for which an operation tries to reach the database, so that the step is
/// sent again on another connection.
const STEP: Duration = Duration::from_secs(8);
/// The maximum time of a look-up, after which its connection counts as silent.
const LOOK_UP: Duration = Duration::from_secs(5);
/// The maximum time of a statement over all that is stored.
const LONG: Duration = Duration::from_secs(4 * 3_600);

type Parameter = (Box<dyn ToSql + Send + Sync>, Type);

/// A statement of one round trip.
///
/// Statements use the unnamed prepared statement with stated types: of a pooler, the next statement
/// may get another server connection, which has no named one.
pub(super) struct Call {
    pub(super) sql: &'static str,
    /// Whether it may be sent again after its answer was lost.
    pub(super) is_repeatable: bool,
    /// Whether its last parameter states that it is sent again.
    is_flagged: bool,
    /// The maximum time for its answer.
    pub(super) limit: Duration,
    parameters: Vec<Parameter>,
}

macro_rules! parameters {
    ($($(#[$doc:meta])* $name:ident: $kind:ty => $column:ident,)*) => {
        $(
            $(#[$doc])*
            #[must_use]
            pub(super) fn $name(self, value: $kind) -> Self {
                self.with(value, Type::$column)
            }
        )*
    };
}

impl Call {
    /// A statement that may be sent again: its effect does not depend on how often it happens.
    pub(super) fn new(sql: &'static str) -> Self {
        Self {
            sql,
            is_repeatable: true,
            is_flagged: false,
            limit: STATEMENT,
            parameters: Vec::new(),
        }
    }

    /// Says that the statement has one more parameter, a flag for a repetition.
    #[must_use]
    pub(super) const fn flagged(mut self) -> Self {
        self.is_flagged = true;
        self
    }

    /// Says that the statement is not repeated after its answer was lost, unless `may`.
    #[must_use]
    pub(super) const fn repeated_if(mut self, may: bool) -> Self {
        self.is_repeatable = may;
        self
    }

    /// Says that the statement is a step of a turn.
    ///
    /// It changes a few rows of one session.
    #[must_use]
    pub(super) const fn step(mut self) -> Self {
        self.limit = STEP;
        self
    }

    /// Says that the statement is a look-up.
    ///
    /// It reads a few rows by an index, and waits for no lock.
    #[must_use]
    pub(super) const fn quick(mut self) -> Self {
        self.limit = LOOK_UP;
        self
    }

    /// Says that the statement looks at all that is stored.
    #[must_use]
    pub(super) const fn long(mut self) -> Self {
        self.limit = LONG;
        self
    }

    parameters! {
        number: i64 => INT8,
        maybe_number: Option<i64> => INT8,
        maybe_small: Option<i16> => INT2,
        bytes: Vec<u8> => BYTEA,
        maybe_bytes: Option<Vec<u8>> => BYTEA,
        byte_list: Vec<Vec<u8>> => BYTEA_ARRAY,
        maybe_text: Option<String> => TEXT,
        text: String => TEXT,
        texts: Vec<String> => TEXT_ARRAY,
        maybe_texts: Vec<Option<String>> => TEXT_ARRAY,
        numbers: Vec<i64> => INT8_ARRAY,
        flag: bool => BOOL,
    }

    fn with(mut self, value: impl ToSql + Send + Sync + 'static, kind: Type) -> Self {
        self.parameters.push((Box::new(value), kind));
        self
    }

    /// Returns the parameters of an attempt.
    pub(super) fn parameters(&self, is_again: bool) -> Vec<(&(dyn ToSql + Sync), Type)> {
        let own = self.parameters.iter();
        let mut all: Vec<(&(dyn ToSql + Sync), Type)> = own
            .map(|(value, kind)| (&**value as &(dyn ToSql + Sync), kind.clone()))
            .collect();
        if self.is_flagged {
            all.push((if is_again { &true } else { &false }, Type::BOOL));
        }
        all
    }
}
