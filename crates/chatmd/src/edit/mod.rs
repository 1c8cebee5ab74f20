//! Changes of single nodes that leave every other byte as it is.
//!
//! [`Edits`] collects what is to become of the nodes of one [`Tree`] and makes all of it at once. An
//! attribute value is escaped, text becomes RAW blocks, and an element must be one: so nothing that
//! is put in can change what stands around it.
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
