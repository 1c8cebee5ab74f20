//! The structures of the Arrow C interface, read without trust in their contents.
//!
//! Every count, pointer and offset is checked before it is used. The interface does not carry the
//! sizes of buffers: a buffer that is shorter than its array's length says cannot be detected.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::Arc;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{ArrayRef, make_array};
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field};

use crate::ColumnChoice;

/// More rows than fit into memory; sums and products of smaller numbers do not overflow.
const MAX_ROWS: i64 = 1 << 48;

/// The layout of an `ArrowSchema`.
#[repr(C)]
struct Schema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *const *const Self,
    dictionary: *const Self,
    release: Option<unsafe extern "C" fn(*mut Self)>,
    private_data: *mut c_void,
}

/// The layout of an `ArrowArray`.
#[repr(C)]
struct Array {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *const *const u8,
    children: *const *const Self,
    dictionary: *const Self,
    release: Option<unsafe extern "C" fn(*mut Self)>,
    private_data: *mut c_void,
}

/// The layout of an `ArrowArrayStream`.
#[repr(C)]
struct Stream {
    get_schema: Option<unsafe extern "C" fn(*mut Self, *mut FFI_ArrowSchema) -> c_int>,
    get_next: Option<unsafe extern "C" fn(*mut Self, *mut FFI_ArrowArray) -> c_int>,
    get_last_error: Option<unsafe extern "C" fn(*mut Self) -> *const c_char>,
    release: Option<unsafe extern "C" fn(*mut Self)>,
    private_data: *mut c_void,
}

/// The reason that data is refused.
pub(crate) enum Refusal {
    /// The data has another type.
    Type(String),
    /// The data violates the interface.
    Invalid(String),
}

type Result<T> = std::result::Result<T, Refusal>;

fn invalid<T>(message: impl Into<String>) -> Result<T> {
    Err(Refusal::Invalid(message.into()))
}

/// The column that is wanted of an array.
pub(crate) struct Column {
    /// The index of the child and the number of children; `None` for the array itself.
    child: Option<(usize, usize)>,
    kind: DataType,
}

/// Finds the array itself, a child with one of the names, or the default child, if its type fits.
#[expect(unsafe_code, reason = "reads structures of C")]
pub(crate) fn column(schema: &FFI_ArrowSchema, choice: &ColumnChoice<'_>) -> Result<Column> {
    let fits = choice.fits;
    // SAFETY: both are the `ArrowSchema` of the interface, which fixes its layout.
    let schema = unsafe { &*std::ptr::from_ref(schema).cast::<Schema>() };
    if schema.release.is_none() {
        return invalid("the schema was released");
    }
    let format = string(schema.format)?.unwrap_or_default();
    if let Some(kind) = kind(schema)?.filter(fits) {
        return Ok(Column { child: None, kind });
    }
    if format == "+s" {
        let fields = children(schema.n_children, schema.children)?;
        let mut found = (fields.len() == 1).then_some(0);
        if choice.takes_first {
            for (index, field) in fields.iter().enumerate().rev() {
                if kind(field)?.is_some_and(|kind| fits(&kind)) {
                    found = Some(index);
                }
            }
        }
        for name in choice.names.iter().rev() {
            for (index, field) in fields.iter().enumerate().rev() {
                if string(field.name)?.as_deref() == Some(*name) {
                    found = Some(index);
                }
            }
        }
        if let Some(index) = found
            && let Some(field) = fields.get(index)
            && let Some(kind) = kind(field)?.filter(fits)
        {
            let child = Some((index, fields.len()));
            return Ok(Column { child, kind });
        }
    }
    Err(Refusal::Type(format!(
        "an Arrow array of format `{format}` is not an array of {}",
        choice.content
    )))
}

/// The type of a schema; `None` for all that are neither text, bytes nor lists of integers.
fn kind(schema: &Schema) -> Result<Option<DataType>> {
    if !schema.dictionary.is_null() {
        return Ok(None);
    }
    let item = || -> Result<Option<Arc<Field>>> {
        let [item] = children(schema.n_children, schema.children)?[..] else {
            return invalid("a list has one child");
        };
        let integer = match string(item.format)?.as_deref() {
            Some("i") => DataType::Int32,
            Some("I") => DataType::UInt32,
            Some("l") => DataType::Int64,
            Some("L") => DataType::UInt64,
            _ => return Ok(None),
        };
        Ok(Some(Arc::new(Field::new_list_field(integer, true))))
    };
    Ok(match string(schema.format)?.as_deref() {
        None => return invalid("the schema has no format"),
        Some("u") => Some(DataType::Utf8),
        Some("U") => Some(DataType::LargeUtf8),
        Some("vu") => Some(DataType::Utf8View),
        Some("z") => Some(DataType::Binary),
        Some("Z") => Some(DataType::LargeBinary),
        Some("vz") => Some(DataType::BinaryView),
        Some("+l") => item()?.map(DataType::List),
        Some("+L") => item()?.map(DataType::LargeList),
        _ => None,
    })
}

#[expect(unsafe_code, reason = "reads structures of C")]
fn string(pointer: *const c_char) -> Result<Option<String>> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: the interface says that it is null-terminated.
    match unsafe { CStr::from_ptr(pointer) }.to_str() {
        Ok(text) => Ok(Some(text.to_owned())),
        Err(_) => invalid("a name or format is not UTF-8"),
    }
}

/// The structures that an array of pointers leads to.
#[expect(unsafe_code, reason = "reads structures of C")]
fn children<'s, T>(number: i64, pointers: *const *const T) -> Result<Vec<&'s T>> {
    let Some(number) = usize::try_from(number).ok().filter(|n| *n <= 1 << 20) else {
        return invalid(format!("the number of children is {number}"));
    };
    let mut children = Vec::with_capacity(number);
    for index in 0..number {
        if pointers.is_null() {
            return invalid("the children are null");
        }
        // SAFETY: the interface says that there are as many pointers as it says children.
        let child = unsafe { pointers.add(index).read_unaligned().as_ref() };
        match child {
            Some(child) => children.push(child),
            None => return invalid("a child is null"),
        }
    }
    Ok(children)
}

/// The array of the column of `array`.
#[expect(unsafe_code, reason = "reads structures of C")]
pub(crate) fn array(array: FFI_ArrowArray, column: &Column) -> Result<ArrayRef> {
    let owner = Arc::new(array);
    // SAFETY: both are the `ArrowArray` of the interface, which fixes its layout. The owner lives
    // as long as this borrow and as the buffers.
    let array = unsafe { &*Arc::as_ptr(&owner).cast::<Array>() };
    if array.release.is_none() {
        return invalid("the array was released");
    }
    let Some((index, number)) = column.child else {
        return Ok(make_array(data(array, &column.kind, &owner)?));
    };
    let (length, offset) = extent(array)?;
    let columns = children(array.n_children, array.children)?;
    let child = match columns.get(index) {
        Some(child) if columns.len() == number => child,
        _ => {
            let found = columns.len();
            return invalid(format!(
                "{number} columns in the schema, {found} in the array"
            ));
        }
    };
    let child = data(child, &column.kind, &owner)?;
    if offset + length > child.len() {
        return invalid("a column is shorter than its table");
    }
    Ok(make_array(child.slice(offset, length)))
}

/// The length and the offset.
fn extent(array: &Array) -> Result<(usize, usize)> {
    let row = |number: i64| (0..=MAX_ROWS).contains(&number).then_some(number);
    match (row(array.length), row(array.offset)) {
        (Some(length), Some(offset)) => Ok((size(length)?, size(offset)?)),
        _ => invalid(format!(
            "the length is {}, the offset {}",
            array.length, array.offset
        )),
    }
}

fn size(number: i64) -> Result<usize> {
    match usize::try_from(number) {
        Ok(number) => Ok(number),
        Err(_) => invalid(format!("{number} is not a size")),
    }
}

/// The buffers of an array.
struct Buffers<'a> {
    array: &'a Array,
    owner: &'a Arc<FFI_ArrowArray>,
}

impl Buffers<'_> {
    #[expect(unsafe_code, reason = "reads structures of C")]
    fn pointer(&self, index: usize) -> Result<*const u8> {
        if self.array.buffers.is_null() {
            return invalid("the buffers are null");
        }
        // SAFETY: callers compare the index with the number of buffers first.
        Ok(unsafe { self.array.buffers.add(index).read_unaligned() })
    }

    #[expect(unsafe_code, reason = "reads structures of C")]
    fn get(&self, index: usize, bytes: usize) -> Result<arrow_buffer::Buffer> {
        if bytes == 0 {
            return Ok(arrow_buffer::MutableBuffer::new(0).into());
        }
        let pointer = self.pointer(index)?.cast_mut();
        match std::ptr::NonNull::new(pointer) {
            None => invalid(format!("buffer {index} is null")),
            // SAFETY: the interface says that the buffer has this length and lives as long as its
            // owner.
            Some(pointer) => Ok(unsafe {
                let owner = Arc::clone(self.owner);
                arrow_buffer::Buffer::from_custom_allocation(pointer, bytes, owner)
            }),
        }
    }

    /// Reads the number at `place` of a buffer of numbers of `width` bytes.
    #[expect(unsafe_code, reason = "reads structures of C")]
    fn number(&self, index: usize, place: usize, width: usize) -> Result<usize> {
        let pointer = self.pointer(index)?;
        if pointer.is_null() {
            return invalid(format!("buffer {index} is null"));
        }
        // SAFETY: the interface says that the buffer has the place.
        let number = unsafe {
            let pointer = pointer.add(place * width);
            if width == 4 {
                i64::from(i32::from_ne_bytes(pointer.cast::<[u8; 4]>().read()))
            } else {
                i64::from_ne_bytes(pointer.cast::<[u8; 8]>().read())
            }
        };
        if (0..=MAX_ROWS * 16).contains(&number) {
            size(number)
        } else {
            invalid(format!("{number} is not an offset or size"))
        }
    }
}

/// The data of an array without a table, validated in full.
fn data(array: &Array, kind: &DataType, owner: &Arc<FFI_ArrowArray>) -> Result<ArrayData> {
    let (length, offset) = extent(array)?;
    let rows = length + offset;
    let number = size(array.n_buffers)?;
    let expected = match kind {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary => {
            number == 3
        }
        DataType::Utf8View | DataType::BinaryView => (3..1 << 20).contains(&number),
        _ => number == 2,
    };
    if !expected {
        return invalid(format!("{number} buffers for {kind}"));
    }
    if !array.dictionary.is_null() {
        return invalid("a dictionary that the schema does not have");
    }
    let source = Buffers { array, owner };
    let mut buffers = Vec::new();
    let mut child_data = Vec::new();
    let wide = matches!(
        kind,
        DataType::LargeUtf8 | DataType::LargeBinary | DataType::LargeList(_)
    );
    let width = if wide { 8 } else { 4 };
    match kind {
        // Arrays without rows may come without offsets.
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary
            if rows == 0 =>
        {
            buffers.push(arrow_buffer::Buffer::from(vec![0_u8; width]));
            buffers.push(source.get(2, 0)?);
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary => {
            buffers.push(source.get(1, (rows + 1) * width)?);
            buffers.push(source.get(2, source.number(1, rows, width)?)?);
        }
        DataType::Utf8View | DataType::BinaryView => {
            buffers.push(source.get(1, rows * 16)?);
            for index in 2..number - 1 {
                let bytes = source.number(number - 1, index - 2, 8)?;
                buffers.push(source.get(index, bytes)?);
            }
        }
        DataType::List(item) | DataType::LargeList(item) => {
            buffers.push(if rows == 0 {
                arrow_buffer::Buffer::from(vec![0_u8; width])
            } else {
                source.get(1, (rows + 1) * width)?
            });
            let [items] = children(array.n_children, array.children)?[..] else {
                return invalid("a list has one child");
            };
            child_data.push(data(items, item.data_type(), owner)?);
        }
        DataType::Int64 | DataType::UInt64 => buffers.push(source.get(1, rows * 8)?),
        _ => buffers.push(source.get(1, rows * 4)?),
    }
    let validity = if array.null_count == 0 || source.pointer(0)?.is_null() {
        None
    } else {
        Some(source.get(0, rows.div_ceil(8))?)
    };
    let data = ArrayData::builder(kind.clone())
        .len(length)
        .offset(offset)
        .null_bit_buffer(validity)
        .buffers(buffers)
        .child_data(child_data)
        .align_buffers(true)
        .build();
    let data = data.or_else(|error| invalid(error.to_string()))?;
    if array.null_count != -1 && usize::try_from(array.null_count) != Ok(data.null_count()) {
        let counted = data.null_count();
        return invalid(format!("{counted} nulls, not {}", array.null_count));
    }
    Ok(data)
}

/// The arrays of a stream.
#[expect(unsafe_code, reason = "calls functions of C")]
pub(crate) fn stream(
    mut stream: FFI_ArrowArrayStream,
    choice: &ColumnChoice<'_>,
) -> Result<Vec<ArrayRef>> {
    let raw = std::ptr::from_mut(&mut stream).cast::<Stream>();
    // SAFETY: both are the `ArrowArrayStream` of the interface, which fixes its layout.
    let (get_schema, get_next, released) = unsafe {
        let raw = &*raw;
        (raw.get_schema, raw.get_next, raw.release.is_none())
    };
    let (Some(get_schema), Some(get_next), false) = (get_schema, get_next, released) else {
        return invalid("the stream was released or has no functions");
    };
    let mut schema = FFI_ArrowSchema::empty();
    // SAFETY: the interface says that a stream that is not released may be asked.
    let code = unsafe { get_schema(raw, &raw mut schema) };
    if code != 0 {
        return failed(raw, code);
    }
    let column = column(&schema, choice)?;
    let mut arrays = Vec::new();
    loop {
        let mut next = FFI_ArrowArray::empty();
        // SAFETY: as above.
        let code = unsafe { get_next(raw, &raw mut next) };
        if code != 0 {
            return failed(raw, code);
        }
        if next.is_released() {
            return Ok(arrays);
        }
        arrays.push(array(next, &column)?);
    }
}

/// The error of a function of a stream.
#[expect(unsafe_code, reason = "calls functions of C")]
fn failed<T>(stream: *mut Stream, code: c_int) -> Result<T> {
    // SAFETY: the stream is alive, and the interface says that it may be asked after an error.
    let message = unsafe {
        match (*stream).get_last_error {
            Some(last_error) => string(last_error(stream)),
            None => Ok(None),
        }
    };
    let message = message.ok().flatten().unwrap_or_default();
    invalid(format!("the stream failed with code {code}: {message}"))
}
