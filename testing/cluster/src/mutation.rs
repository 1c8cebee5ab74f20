//! Checks of the store that are removed on purpose, to see which tests fail.

use std::io;

use testkit::postgres::Database;

/// A check of the store that is removed from its functions while servers run.
#[derive(Clone, Copy, Debug)]
pub struct Mutation {
    /// The removed check.
    pub name: &'static str,
    /// The functions of the database.
    pub functions: &'static [&'static str],
    /// Texts of their definitions, and what replaces each of them.
    pub changes: &'static [(&'static str, &'static str)],
}

impl Mutation {
    /// Changes the functions.
    ///
    /// # Errors
    /// Returns an error if a function has none of the texts, or the database refuses it.
    pub fn apply(&self, database: &Database) -> io::Result<()> {
        for function in self.functions {
            let definition = database.query(&format!(
                "select pg_get_functiondef(oid) from pg_proc
                 where pronamespace = 'logue'::regnamespace and proname = '{function}'"
            ))?;
            let mut changed = definition.clone();
            for (from, to) in self.changes {
                changed = changed.replace(from, to);
            }
            if changed == definition {
                let name = self.name;
                return Err(io::Error::other(format!(
                    "`{function}` has not the texts of the mutation `{name}`"
                )));
            }
            database.query(&changed)?;
        }
        Ok(())
    }
}
