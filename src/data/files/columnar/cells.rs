//! The cells of a column as text, or as the bytes of files.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, StringViewArray};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::DataType;

/// A cell of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// A null.
    Missing,
    /// A string, or a number or boolean in its text form.
    Text(String),
    /// A list of strings.
    Texts(Vec<String>),
}

impl Cell {
    /// Returns the text of the cell, the parts of a list joined by blanks; `None` for a null.
    pub fn joined(self) -> Option<String> {
        match self {
            Self::Missing => None,
            Self::Text(text) => Some(text),
            Self::Texts(parts) => Some(parts.join(" ")),
        }
    }
}

/// Returns a field of a column of structs.
pub(super) fn field<'a>(column: &'a ArrayRef, name: &str) -> Option<&'a ArrayRef> {
    column.as_struct_opt()?.column_by_name(name)
}

/// Returns the cells of a column; the error says what the column holds instead.
pub(super) fn of(column: &ArrayRef) -> Result<Vec<Cell>, String> {
    let lists = |list: &dyn Fn(usize) -> ArrayRef| -> Result<Vec<Cell>, String> {
        (0..column.len())
            .map(|row| match column.is_null(row) {
                true => Ok(Cell::Missing),
                false => {
                    texts(&list(row)).map(|all| Cell::Texts(all.into_iter().flatten().collect()))
                }
            })
            .collect()
    };
    match column.data_type() {
        DataType::List(_) => lists(&|row| column.as_list::<i32>().value(row)),
        DataType::LargeList(_) => lists(&|row| column.as_list::<i64>().value(row)),
        DataType::FixedSizeList(..) => lists(&|row| column.as_fixed_size_list().value(row)),
        _ => {
            let all = texts(column)?.into_iter();
            Ok(all
                .map(|text| text.map_or(Cell::Missing, Cell::Text))
                .collect())
        }
    }
}

/// Returns the files in a column of bytes, or of structs with such a field `bytes`; the error says what the
/// column holds instead.
pub(super) fn bytes(column: &ArrayRef) -> Result<Vec<Option<Vec<u8>>>, String> {
    let inner = field(column, "bytes").unwrap_or(column);
    macro_rules! owned {
        ($array:expr) => {
            Ok($array.iter().map(|b| b.map(<[u8]>::to_vec)).collect())
        };
    }
    match inner.data_type() {
        DataType::Binary => owned!(inner.as_binary::<i32>()),
        DataType::LargeBinary => owned!(inner.as_binary::<i64>()),
        DataType::BinaryView => owned!(inner.as_binary_view()),
        _ => Err(format!(
            "contains {}, not bytes of files or structs with a field `bytes`",
            column.data_type()
        )),
    }
}

fn texts(column: &ArrayRef) -> Result<Vec<Option<String>>, String> {
    let holds =
        |column: &ArrayRef| format!("contains {}, not texts or numbers", column.data_type());
    let plain = match column.data_type() {
        DataType::Dictionary(_, values) => values.as_ref(),
        other => other,
    };
    let readable = plain.is_numeric()
        || plain.is_string()
        || matches!(
            plain,
            DataType::Boolean | DataType::Binary | DataType::LargeBinary | DataType::BinaryView
        );
    if !readable {
        return Err(holds(column));
    }
    // Bytes that are not UTF-8 are an error rather than a missing cell.
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    let cast = cast_with_options(column, &DataType::Utf8View, &options)
        .map_err(|e| format!("cannot be read as text: {e}"))?;
    let cast: &StringViewArray = cast.as_string_view();
    Ok(cast.iter().map(|text| text.map(str::to_owned)).collect())
}
