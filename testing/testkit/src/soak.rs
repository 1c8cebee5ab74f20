//! Counts of long tests: a short form in every run, the full one under `cargo xtask soak`.

/// Returns `full` where the variable `LOGUE_SOAK` is set, else `short`.
pub fn rounds(short: u32, full: u32) -> u32 {
    if std::env::var_os("LOGUE_SOAK").is_some() {
        full
    } else {
        short
    }
}
