//! Lists whose elements are values of a Rust type.
//!
//! The engine holds such a list as [`AnyList`], which hides the element type. JSON appears only
//! where a value enters or leaves as JSON: an update of a node that writes JSON, a stored record.

use std::any::{Any, TypeId};
use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::state::list::List;

/// A type whose values a list field can hold.
///
/// Every type with these bounds is an element. Its JSON form is the one that `serde` gives it.
pub trait Element:
    Serialize + DeserializeOwned + PartialEq + fmt::Debug + Send + Sync + 'static
{
}

impl<T> Element for T where
    T: Serialize + DeserializeOwned + PartialEq + fmt::Debug + Send + Sync + 'static
{
}

/// A list of elements of some type.
pub(crate) trait AnyList: Send + Sync {
    fn as_any(&self) -> &dyn Any;
    /// The elements as JSON. Costs their size.
    fn to_json(&self) -> List;
    fn clone_list(&self) -> Arc<dyn AnyList>;
    /// Appends the elements of another list of this type and keeps the last `bound` elements.
    fn append(&mut self, new: &dyn AnyList, bound: Option<usize>);
    fn equals(&self, other: &dyn AnyList) -> bool;
    fn debug(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
}

impl<T: Element> AnyList for List<T> {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn to_json(&self) -> List {
        self.iter().map(json_of).collect()
    }

    fn clone_list(&self) -> Arc<dyn AnyList> {
        Arc::new(self.clone())
    }

    fn append(&mut self, new: &dyn AnyList, bound: Option<usize>) {
        let Some(new) = new.as_any().downcast_ref::<Self>() else {
            return;
        };
        match bound {
            Some(bound) => self.append_bounded(new, bound),
            None if self.is_empty() => *self = new.clone(),
            None => self.extend(new.shared()),
        }
    }

    fn equals(&self, other: &dyn AnyList) -> bool {
        other.as_any().downcast_ref::<Self>() == Some(self)
    }

    fn debug(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The element as JSON; null if its type refuses.
fn json_of<T: Element>(element: &T) -> Value {
    serde_json::to_value(element).unwrap_or_default()
}

/// The type of a list's elements: how JSON becomes one, and the rule that each must meet.
#[derive(Clone)]
pub struct TypedElement {
    name: Arc<str>,
    type_id: TypeId,
    decode: fn(&List) -> Result<Arc<dyn AnyList>, InvalidElement>,
    is_list: fn(&dyn AnyList) -> bool,
    check: Option<Arc<Check>>,
}

/// Checks every element of a list.
type Check = dyn Fn(&dyn AnyList) -> Result<(), InvalidElement> + Send + Sync;

/// The first element of a list that is not valid.
#[derive(Debug)]
pub(crate) struct InvalidElement {
    pub(crate) index: usize,
    pub(crate) cause: String,
}

impl TypedElement {
    /// The element type `T` under the name that schemas show.
    pub fn new<T: Element>(name: &str) -> Self {
        Self {
            name: name.into(),
            type_id: TypeId::of::<T>(),
            decode: decode::<T>,
            is_list: |list| list.as_any().is::<List<T>>(),
            check: None,
        }
    }

    /// The element type `T` with a rule that every element of an update must meet.
    pub fn checked<T: Element>(
        name: &str,
        check: impl Fn(&T) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        let check = move |list: &dyn AnyList| {
            let elements = list.as_any().downcast_ref::<List<T>>();
            let mut elements = elements.into_iter().flat_map(List::iter).enumerate();
            elements.try_for_each(|(index, element)| {
                check(element).map_err(|cause| InvalidElement { index, cause })
            })
        };
        Self {
            check: Some(Arc::new(check)),
            ..Self::new::<T>(name)
        }
    }

    /// The name of the type in schemas.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether the elements are of the type `T`.
    pub fn is<T: Element>(&self) -> bool {
        self.type_id == TypeId::of::<T>()
    }

    pub(crate) fn is_list(&self, list: &dyn AnyList) -> bool {
        (self.is_list)(list)
    }

    pub(crate) fn decode(&self, items: &List) -> Result<Arc<dyn AnyList>, InvalidElement> {
        (self.decode)(items)
    }

    pub(crate) fn check(&self, list: &dyn AnyList) -> Result<(), InvalidElement> {
        self.check.as_ref().map_or(Ok(()), |check| check(list))
    }
}

fn decode<T: Element>(items: &List) -> Result<Arc<dyn AnyList>, InvalidElement> {
    let mut list = List::<T>::new();
    for (index, item) in items.iter().enumerate() {
        let element = T::deserialize(item).map_err(|error| InvalidElement {
            index,
            cause: error.to_string(),
        })?;
        list.push(element);
    }
    Ok(Arc::new(list))
}

impl PartialEq for TypedElement {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.type_id == other.type_id
    }
}

impl Eq for TypedElement {}

impl fmt::Debug for TypedElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TypedElement").field(&self.name).finish()
    }
}
