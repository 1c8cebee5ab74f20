//! Changes of single elements that keep every other byte.
//!
//! [`Edits`] collects changes of the elements of one [`Tree`](crate::Tree) and applies all of them
//! together. Attribute values are escaped, text is wrapped in RAW blocks, and new elements are
//! validated. So inserted text cannot affect the text around it.
//!
//! ```
//! use chatmd::edit::Edits;
//!
//! let tree = chatmd::parse("<config model='old'   temperature=1 />\n<user>Hi</user>\n");
//! let config = tree.elements().next().unwrap();
//! let mut edits = Edits::new(&tree)?;
//! edits.set_attribute(config, "model", "a \"new\" one")?;
//! assert_eq!(
//!     edits.apply()?,
//!     "<config model=\"a &quot;new&quot; one\"   temperature=1 />\n<user>Hi</user>\n",
//! );
//! # Ok::<(), chatmd::edit::EditError>(())
//! ```

mod edits;
mod opening_tag;
pub(crate) mod replacement;

pub use edits::Edits;
pub use replacement::{EditError, Replacement, apply};
