//! Columnar tables: Parquet and Arrow IPC, the formats in which Hugging Face distributes data sets.
//!
//! A file is read in batches of rows, and only the requested columns are decoded, so that memory does not
//! grow with the file. A field of a struct column is named with a point: `translation.de`.

mod cells;
mod features;
mod ipc;
mod values;

use std::fs::File;
use std::path::Path;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Fields, Schema, SchemaRef};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use serde_json::{Map, Value};

use crate::data::files::guard;
use crate::error::{Error, Result, nearest};

pub use cells::Cell;
pub use features::Features;

/// Number of rows decoded at once. A web document has a few thousand characters, so a batch has a few
/// megabytes.
const BATCH: usize = 1024;

/// The formats of columnar files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Parquet,
    Arrow,
}

impl Format {
    fn of(path: &Path) -> Option<Self> {
        let ending = path.extension()?.to_str()?.to_lowercase();
        match ending.as_str() {
            "parquet" => Some(Self::Parquet),
            "arrow" | "feather" | "ipc" => Some(Self::Arrow),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Parquet => "Parquet",
            Self::Arrow => "Arrow IPC",
        }
    }
}

/// Whether a file is Parquet (`.parquet`) or Arrow IPC (`.arrow`, `.feather`, `.ipc`), judged by its name.
pub fn is_columnar(path: &Path) -> bool {
    Format::of(path).is_some()
}

/// A column name, and the key of `[data]` that sets it.
pub type KeyedColumn<'a> = (&'a str, &'static str);

/// Calls `each` with the number of every row, from 1, and its cells in these columns.
///
/// # Errors
/// If the file cannot be read, is damaged or lacks a column, a column holds neither texts nor numbers, or
/// `each` fails.
pub fn rows(
    path: &Path,
    columns: &[KeyedColumn<'_>],
    mut each: impl FnMut(u64, Vec<Cell>) -> Result<()>,
) -> Result<()> {
    let mut row = 0;
    batches(
        path,
        columns,
        |batch| decode(batch, columns),
        |cells| {
            let rows = cells.first().map_or(0, Vec::len);
            let mut cells: Vec<_> = cells.into_iter().map(Vec::into_iter).collect();
            for _ in 0..rows {
                row += 1;
                let taken = cells.iter_mut().map(|c| c.next().unwrap_or(Cell::Missing));
                each(row, taken.collect())?;
            }
            Ok(())
        },
    )
}

/// Calls `each` with the number of every row, from 1, and the values of all its columns by name.
///
/// # Errors
/// As for [`rows`].
pub fn objects(
    path: &Path,
    mut each: impl FnMut(u64, Map<String, Value>) -> Result<()>,
) -> Result<()> {
    let all = features(path)?;
    let names = &all.roots;
    let wanted: Vec<KeyedColumn> = names.iter().map(|name| (name.as_str(), "path")).collect();
    let mut row = 0;
    let read = |batch: &RecordBatch| {
        let mut objects = vec![Map::new(); batch.num_rows()];
        for name in names {
            let found = column(batch, name)?;
            let values = values::of(found).map_err(|why| format!("column `{name}` {why}"))?;
            for (object, value) in objects.iter_mut().zip(values) {
                object.insert(name.clone(), value);
            }
        }
        Ok(objects)
    };
    batches(path, &wanted, read, |objects| {
        objects.into_iter().try_for_each(|object| {
            row += 1;
            each(row, object)
        })
    })
}

/// Calls `each` with the number of every row, from 1, the bytes in column `files` (a binary column, or a
/// struct with a binary field `bytes`, as Hugging Face stores images) and the cell in column `other`.
///
/// # Errors
/// As for [`rows`]; also if the column `files` holds something else.
pub fn files(
    path: &Path,
    [files, other]: [KeyedColumn<'_>; 2],
    mut each: impl FnMut(u64, Option<Vec<u8>>, Cell) -> Result<()>,
) -> Result<()> {
    let mut row = 0;
    let both = |batch: &RecordBatch| {
        let found = column(batch, files.0)?;
        let bytes = cells::bytes(found).map_err(|why| format!("column `{}` {why}", files.0))?;
        Ok((bytes, decode(batch, &[other])?.concat()))
    };
    batches(path, &[files, other], both, |(bytes, cells)| {
        bytes.into_iter().zip(cells).try_for_each(|(bytes, cell)| {
            row += 1;
            each(row, bytes, cell)
        })
    })
}

/// Returns what the metadata of a file says about its columns.
///
/// # Errors
/// If the file cannot be read or is damaged.
pub fn features(path: &Path) -> Result<Features> {
    let (format, damaged) = format_and_error(path)?;
    guard::catch_panic(|| {
        let file = File::open(path).map_err(Fault::Io)?;
        schema_of(file, format)
    })
    .map_err(&damaged)?
    .map(|schema| Features::of(&schema))
    .map_err(|fault| fault.of(path, &damaged))
}

/// Returns the format of a file, and a function that makes the error for a damaged one.
fn format_and_error(path: &Path) -> Result<(Format, impl Fn(String) -> Error)> {
    crate::files::require_regular(path)?;
    let shown = path.display().to_string();
    let Some(format) = Format::of(path) else {
        return Err(Error::run(format!("{shown} is neither Parquet nor Arrow")));
    };
    let damaged = move |why: String| {
        Error::run(format!(
            "{shown} cannot be read as {}: {why}",
            format.name()
        ))
    };
    Ok((format, damaged))
}

/// Calls `take` with the result of `read` for every batch of rows. A panic in `read` becomes an error.
fn batches<T>(
    path: &Path,
    columns: &[KeyedColumn<'_>],
    read: impl Fn(&RecordBatch) -> std::result::Result<T, String>,
    mut take: impl FnMut(T) -> Result<()>,
) -> Result<()> {
    let (format, damaged) = format_and_error(path)?;
    let mut batches = guard::catch_panic(|| open(path, format, columns))
        .map_err(&damaged)?
        .map_err(|fault| fault.of(path, &damaged))?;
    while let Some(batch) = guard::catch_panic(|| batches.next()).map_err(&damaged)? {
        let batch = batch.map_err(&damaged)?;
        let made = guard::catch_panic(|| read(&batch))
            .map_err(&damaged)?
            .map_err(|why| Error::run(format!("{}: {why}", path.display())))?;
        take(made)?;
    }
    Ok(())
}

/// Batches of rows; an error ends them.
type Batches = Box<dyn Iterator<Item = std::result::Result<RecordBatch, String>>>;

/// The reason why a file cannot be read in batches.
enum Fault {
    Io(std::io::Error),
    Damaged(String),
    Column(String),
}

impl Fault {
    fn of(self, path: &Path, damaged: impl Fn(String) -> Error) -> Error {
        match self {
            Self::Io(e) => Error::io("read", path)(e),
            Self::Damaged(why) => damaged(why),
            Self::Column(why) => Error::run(format!("{}: {why}", path.display())),
        }
    }
}

fn open(
    path: &Path,
    format: Format,
    columns: &[KeyedColumn<'_>],
) -> std::result::Result<Batches, Fault> {
    let damaged = |e: &dyn std::fmt::Display| Fault::Damaged(e.to_string());
    let mut file = File::open(path).map_err(Fault::Io)?;
    match format {
        Format::Parquet => {
            let builder =
                ParquetRecordBatchReaderBuilder::try_new(file).map_err(|e| damaged(&e))?;
            let roots = require(builder.schema(), columns).map_err(Fault::Column)?;
            let mask = ProjectionMask::roots(builder.parquet_schema(), roots);
            let reader = builder.with_projection(mask).with_batch_size(BATCH).build();
            let reader = reader.map_err(|e| damaged(&e))?;
            Ok(Box::new(
                reader.map(|batch| batch.map_err(|e| e.to_string())),
            ))
        }
        Format::Arrow => {
            ipc::check_lengths(&mut file).map_err(Fault::Damaged)?;
            let reader = ipc::reader(file).map_err(Fault::Damaged)?;
            require(&reader.schema(), columns).map_err(Fault::Column)?;
            Ok(Box::new(
                reader.map(|batch| batch.map_err(|e| e.to_string())),
            ))
        }
    }
}

/// Reads the schema of a file.
fn schema_of(mut file: File, format: Format) -> std::result::Result<SchemaRef, Fault> {
    let damaged = |e: &dyn std::fmt::Display| Fault::Damaged(e.to_string());
    match format {
        Format::Parquet => {
            let builder =
                ParquetRecordBatchReaderBuilder::try_new(file).map_err(|e| damaged(&e))?;
            Ok(builder.schema().clone())
        }
        Format::Arrow => {
            ipc::check_lengths(&mut file).map_err(Fault::Damaged)?;
            let reader = ipc::reader(file).map_err(Fault::Damaged)?;
            Ok(reader.schema())
        }
    }
}

/// Returns the indices of the top-level columns that hold these columns; an error if one does not exist.
fn require(
    schema: &Schema,
    columns: &[KeyedColumn<'_>],
) -> std::result::Result<Vec<usize>, String> {
    let mut roots = Vec::new();
    for (name, key) in columns {
        let parts = split_column_name(schema.fields(), name).ok_or_else(|| {
            let all = names(schema.fields());
            let near = nearest(name, all.iter().map(String::as_str));
            let hint = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
            let there = join_names(&all);
            format!("no column `{name}`{hint}; the columns are {there}; set [data] {key}")
        })?;
        roots.extend(schema.index_of(parts[0]).ok());
    }
    Ok(roots)
}

fn join_names(names: &[String]) -> String {
    const SHOWN: usize = 12;
    let shown: Vec<String> = names.iter().take(SHOWN).map(|n| format!("`{n}`")).collect();
    let more = match names.len() > SHOWN {
        true => format!(" and {} more", names.len() - SHOWN),
        false => String::new(),
    };
    format!("{}{more}", shown.join(", "))
}

/// Splits a column name into the names of a column and of the struct fields inside it: `translation.de` is
/// `translation`, `de`, unless a column has the whole name.
fn split_column_name<'a>(fields: &Fields, name: &'a str) -> Option<Vec<&'a str>> {
    if fields.find(name).is_some() {
        return Some(vec![name]);
    }
    name.match_indices('.').find_map(|(point, _)| {
        let (first, rest) = (&name[..point], &name[point + 1..]);
        match fields.find(first)?.1.data_type() {
            DataType::Struct(inner) => {
                let mut all = vec![first];
                all.extend(split_column_name(inner, rest)?);
                Some(all)
            }
            _ => None,
        }
    })
}

/// Returns the names of all columns; fields of structs are joined with a point.
fn names(fields: &Fields) -> Vec<String> {
    let each = fields.iter().flat_map(|field| match field.data_type() {
        DataType::Struct(inner) => {
            let inner = names(inner).into_iter();
            inner
                .map(|name| format!("{}.{name}", field.name()))
                .collect()
        }
        _ => vec![field.name().clone()],
    });
    each.collect()
}

/// Returns the cells of some columns of a batch.
fn decode(
    batch: &RecordBatch,
    columns: &[KeyedColumn<'_>],
) -> std::result::Result<Vec<Vec<Cell>>, String> {
    let each = columns.iter().map(|(name, _)| {
        let found = column(batch, name)?;
        cells::of(found).map_err(|why| format!("column `{name}` {why}"))
    });
    each.collect()
}

/// Returns a column by its name.
fn column<'a>(batch: &'a RecordBatch, name: &str) -> std::result::Result<&'a ArrayRef, String> {
    let missing = || format!("no column `{name}`");
    let schema = batch.schema();
    let parts = split_column_name(schema.fields(), name).ok_or_else(missing)?;
    let mut column = batch.column_by_name(parts[0]).ok_or_else(missing)?;
    for part in &parts[1..] {
        column = cells::field(column, part).ok_or_else(missing)?;
    }
    Ok(column)
}
