//! Help texts that several diagnostics share.

/// Help of an error that [`crate::repair()`] corrects.
pub(crate) const FIX: &str = "run `logue fix FILE` to repair it";

/// Help of an error in a summary whose text quotes tags.
pub(crate) const RAW_SUMMARY: &str =
    "put the summary's text into a RAW block: `<summary>RAW|…|RAW</summary>`";
