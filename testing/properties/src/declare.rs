//! Declarations of tools and arguments of calls: any text is read, and what a shape refuses it
//! refuses however the text is spelled.

use openchatml::declare;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::input::Input;

/// The first line is the arguments of a call, the rest declares tools. Checking the text and
/// checking the value that it spells agree.
pub fn declare(data: &[u8]) {
    let mut input = Input::new(data);
    let arguments = String::from_utf8_lossy(input.line()).into_owned();
    let text = String::from_utf8_lossy(input.rest()).into_owned();
    let declared = declare::read(&text);
    let value = serde_json::from_str::<Value>(&arguments);
    for tool in declared.tools() {
        assert!(tool.span.end <= text.len(), "{:?}", tool.span);
        let Some(shape) = &tool.schema else {
            continue;
        };
        match (shape.check(arguments.as_bytes()), &value) {
            (Ok(()), Ok(value)) => assert!(shape.accepts(value), "{value}"),
            // A number may be JSON and too large for any type.
            (Ok(()), Err(error)) => assert!(
                serde_json::from_str::<IgnoredAny>(&arguments).is_ok(),
                "what is no JSON has a shape: {error}"
            ),
            (Err(found), _) => assert!(found.span.end <= arguments.len(), "{found:?}"),
        }
    }
}
