//! Columns as JSON values: numbers, booleans and strings, and lists and structs of them.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, StringViewArray};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::DataType;
use serde_json::{Map, Value};

/// Returns the values of a column; the error says what the column holds instead.
pub(super) fn of(column: &ArrayRef) -> Result<Vec<Value>, String> {
    match column.data_type() {
        DataType::Null => Ok(vec![Value::Null; column.len()]),
        DataType::Struct(fields) => {
            let all = column.as_struct();
            let mut objects = vec![Map::new(); column.len()];
            for (field, values) in fields.iter().zip(all.columns()) {
                for (object, value) in objects.iter_mut().zip(of(values)?) {
                    object.insert(field.name().clone(), value);
                }
            }
            let objects = objects.into_iter().map(Value::Object);
            Ok(where_valid(column, objects))
        }
        DataType::List(_) => {
            let all = column.as_list::<i32>();
            let ends = all.value_offsets().iter().map(|at| *at as usize);
            lists(column, all.values(), ends)
        }
        DataType::LargeList(_) => {
            let all = column.as_list::<i64>();
            let ends = all.value_offsets().iter().map(|at| *at as usize);
            lists(column, all.values(), ends)
        }
        DataType::FixedSizeList(_, size) => {
            let all = column.as_fixed_size_list();
            let ends = (0..=column.len()).map(|row| row * *size as usize);
            lists(column, all.values(), ends)
        }
        _ => plain(column),
    }
}

/// Builds the lists between each pair of successive bounds.
fn lists(
    column: &ArrayRef,
    values: &ArrayRef,
    bounds: impl Iterator<Item = usize>,
) -> Result<Vec<Value>, String> {
    let (values, bounds) = (of(values)?, bounds.collect::<Vec<_>>());
    let lists = bounds
        .windows(2)
        .map(|pair| Value::Array(values[pair[0]..pair[1]].to_vec()));
    Ok(where_valid(column, lists))
}

/// Replaces values by null where the column is null.
fn where_valid(column: &ArrayRef, values: impl Iterator<Item = Value>) -> Vec<Value> {
    let all = values.enumerate();
    all.map(|(row, value)| match column.is_null(row) {
        true => Value::Null,
        false => value,
    })
    .collect()
}

/// Returns numbers, booleans and strings.
fn plain(column: &ArrayRef) -> Result<Vec<Value>, String> {
    let kind = match column.data_type() {
        DataType::Dictionary(_, values) => values.as_ref(),
        other => other,
    };
    // A value that does not fit is an error rather than a missing value.
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    let cast = |to: &DataType| {
        let cast = cast_with_options(column, to, &options);
        cast.map_err(|e| format!("cannot be read: {e}"))
    };
    macro_rules! values {
        ($all:expr) => {
            Ok($all
                .iter()
                .map(|value| value.map_or(Value::Null, Value::from))
                .collect())
        };
    }
    match kind {
        DataType::Boolean => values!(cast(&DataType::Boolean)?.as_boolean()),
        kind if kind.is_unsigned_integer() => {
            values!(cast(&DataType::UInt64)?.as_primitive::<UInt64Type>())
        }
        kind if kind.is_integer() => values!(cast(&DataType::Int64)?.as_primitive::<Int64Type>()),
        kind if kind.is_floating() => {
            values!(cast(&DataType::Float64)?.as_primitive::<Float64Type>())
        }
        kind if kind.is_string() || kind.is_temporal() || kind.is_numeric() => {
            let cast = cast(&DataType::Utf8View)?;
            let texts: &StringViewArray = cast.as_string_view();
            values!(texts)
        }
        other => Err(format!(
            "contains {other}, which cannot be converted to text"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::builder::{Int32Builder, ListBuilder, StringBuilder, StructBuilder};
    use arrow_schema::Field;
    use serde_json::json;
    use std::sync::Arc;

    #[test]
    fn lists_of_structs_are_lists_of_objects() {
        let fields = vec![
            Field::new("role", DataType::Utf8, true),
            Field::new("n", DataType::Int32, true),
        ];
        let mut lists = ListBuilder::new(StructBuilder::from_fields(fields, 3));
        for row in [&[(Some("user"), 1), (None, 2)][..], &[], &[(Some("x"), 3)]] {
            for (role, n) in row {
                let one = lists.values();
                one.field_builder::<StringBuilder>(0)
                    .unwrap()
                    .append_option(*role);
                one.field_builder::<Int32Builder>(1)
                    .unwrap()
                    .append_value(*n);
                one.append(true);
            }
            lists.append(true);
        }
        lists.append(false);
        let column: ArrayRef = Arc::new(lists.finish());
        assert_eq!(
            Value::Array(of(&column).unwrap()),
            json!([
                [{"role": "user", "n": 1}, {"role": null, "n": 2}],
                [],
                [{"role": "x", "n": 3}],
                null
            ])
        );
    }
}
