//! Weights as safetensors, keyed by dotted parameter path: a file that any tool of the field opens.
//!
//! Tensors are written sorted by number format and path, so equal weights are equal bytes. Reading
//! compares names, shapes and number formats exactly and lists everything that differs.

use crate::digest::hex;
use crate::error::{Error, Result};
use crate::train::parameters::Path as Dotted;
use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{DType, Int, Tensor, TensorData};
use safetensors::tensor::{Dtype, SafeTensors, TensorView, View};
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

/// Differences that a message lists before it only counts them.
const LISTED: usize = 8;

/// Writes the float and integer parameters of a module.
///
/// # Errors
/// When the disk refuses, and for number formats that the file format lacks (quantised weights).
pub fn save<M: Module>(model: &M, path: &Path) -> Result<()> {
    let tensors = collect(model)?;
    safetensors::serialize_to_file(tensors, None, path)
        .map_err(|e| Error::run(format!("cannot write {}: {e}", path.display())))?;
    as_readable_as_its_folder(path);
    Ok(())
}

/// The library writes what its user alone may read. Where modes cannot be set the weights are there all the same.
fn as_readable_as_its_folder(path: &Path) {
    #[cfg(unix)]
    if let Some(Ok(folder)) = path.parent().map(std::fs::metadata) {
        use std::os::unix::fs::PermissionsExt;
        let mode = folder.permissions().mode() & 0o666 | 0o600;
        let _ = std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode));
    }
}

/// Puts a file's weights into a module of the same parameters.
///
/// # Errors
/// When the file cannot be read, is not safetensors, or does not fit: every parameter that is missing,
/// unused, or of another shape or number format is named.
pub fn load<M: Module>(model: M, path: &Path) -> Result<M> {
    let bytes = std::fs::read(path).map_err(Error::io("read", path))?;
    let file = SafeTensors::deserialize(&bytes)
        .map_err(|e| Error::run(format!("{} is not a safetensors file: {e}", path.display())))?;
    let mut checker = Checker {
        path: Dotted::default(),
        unused: file.iter().collect(),
        faults: Vec::new(),
    };
    model.visit(&mut checker);
    let mut faults = checker.faults;
    faults.extend(
        checker
            .unused
            .keys()
            .map(|name| format!("`{name}` is in the file but not in the model")),
    );
    if !faults.is_empty() {
        return Err(misfit(path, &faults));
    }
    Ok(model.map(&mut Filler {
        path: Dotted::default(),
        file: Stored::File(file),
    }))
}

/// Every tensor of a file by its path.
///
/// # Errors
/// When the file cannot be read or is not safetensors.
pub fn read(path: &Path) -> Result<BTreeMap<String, TensorData>> {
    let bytes = std::fs::read(path).map_err(Error::io("read", path))?;
    let file = SafeTensors::deserialize(&bytes)
        .map_err(|e| Error::run(format!("{} is not a safetensors file: {e}", path.display())))?;
    let filler = Filler {
        path: Dotted::default(),
        file: Stored::File(file),
    };
    let Stored::File(file) = &filler.file else {
        return Ok(BTreeMap::new());
    };
    let names = file.names().into_iter();
    Ok(names
        .filter_map(|name| Some((name.to_string(), filler.tensor(name)?)))
        .collect())
}

/// Puts weights into a module by their paths; parameters without one stay as they are. Shapes must fit.
pub fn fill<M: Module>(model: M, weights: BTreeMap<String, TensorData>) -> M {
    model.map(&mut Filler {
        path: Dotted::default(),
        file: Stored::Values(weights),
    })
}

/// SHA-256 over the parameters in the order of their paths: path, number format, shape and bytes of each.
///
/// # Errors
/// For number formats that have no name in safetensors.
pub fn weights_hash<M: Module>(model: &M) -> Result<String> {
    let mut tensors = collect(model)?;
    tensors.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut hash = Sha256::new();
    for (path, values) in &tensors {
        let head = format!("{path}\n{:?}{:?}\n", values.dtype, values.shape);
        hash.update(head.as_bytes());
        hash.update(values.data.as_bytes());
    }
    Ok(hex(&hash.finalize()))
}

/// One parameter on the way to a file.
struct Values {
    dtype: Dtype,
    shape: Vec<usize>,
    data: TensorData,
}

impl View for Values {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(self.data.as_bytes())
    }

    fn data_len(&self) -> usize {
        self.data.as_bytes().len()
    }
}

fn collect<M: Module>(model: &M) -> Result<Vec<(String, Values)>> {
    let mut collector = Collector::default();
    model.visit(&mut collector);
    collector
        .found
        .into_iter()
        .map(|(path, data)| {
            let dtype = stored(data.dtype()).ok_or_else(|| {
                Error::run(format!(
                    "parameter `{path}` has the number format {:?}, which safetensors lacks",
                    data.dtype()
                ))
            })?;
            let shape = data.shape().to_vec();
            Ok((path, Values { dtype, shape, data }))
        })
        .collect()
}

#[derive(Default)]
struct Collector {
    path: Dotted,
    found: Vec<(String, TensorData)>,
}

impl ModuleVisitor for Collector {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.enter(name);
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.exit();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let data = param.transform_for_save().val().into_data();
        self.found.push((self.path.joined(), data));
    }

    fn visit_int<const D: usize>(&mut self, param: &Param<Tensor<D, Int>>) {
        let data = param.transform_for_save().val().into_data();
        self.found.push((self.path.joined(), data));
    }
}

/// Holds what a module expects against what a file has.
struct Checker<'a> {
    path: Dotted,
    unused: BTreeMap<&'a str, TensorView<'a>>,
    faults: Vec<String>,
}

impl Checker<'_> {
    fn expect(&mut self, shape: &[usize], dtype: DType) {
        let path = self.path.joined();
        let Some(found) = self.unused.remove(path.as_str()) else {
            self.faults.push(format!("`{path}` is missing"));
            return;
        };
        if found.shape() != shape {
            self.faults.push(format!(
                "`{path}` has the shape {:?}, the model wants {shape:?}",
                found.shape()
            ));
        }
        if Some(found.dtype()) != stored(dtype) {
            self.faults.push(format!(
                "`{path}` has the number format {:?}, the model wants {dtype:?}",
                found.dtype()
            ));
        }
    }
}

impl ModuleVisitor for Checker<'_> {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.enter(name);
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.exit();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        // Weights that were never drawn are not drawn only to be replaced.
        let dtype = if param.is_initialized() {
            param.val().dtype()
        } else {
            param.lazy_device().settings().float_dtype.into()
        };
        self.expect(&param.lazy_shape().to_vec(), dtype);
    }

    fn visit_int<const D: usize>(&mut self, param: &Param<Tensor<D, Int>>) {
        self.expect(&param.lazy_shape().to_vec(), param.val().dtype());
    }
}

/// Replaces parameters by those of a file, which was found to fit.
struct Filler<'a> {
    path: Dotted,
    file: Stored<'a>,
}

/// Where weights come from.
enum Stored<'a> {
    File(SafeTensors<'a>),
    Values(BTreeMap<String, TensorData>),
}

impl Filler<'_> {
    fn take(&self) -> Option<TensorData> {
        self.tensor(&self.path.joined())
    }

    fn tensor(&self, name: &str) -> Option<TensorData> {
        let file = match &self.file {
            Stored::File(file) => file,
            Stored::Values(values) => return values.get(name).cloned(),
        };
        let found = file.tensor(name).ok()?;
        let dtype = computed(found.dtype())?;
        let bytes = found.data().to_vec();
        Some(TensorData::from_bytes_vec(
            bytes,
            found.shape().to_vec(),
            dtype,
        ))
    }
}

impl ModuleMapper for Filler<'_> {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.enter(name);
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.exit();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let Some(data) = self.take() else {
            return param;
        };
        let (id, device, dtype) = (param.id, param.lazy_device(), data.dtype());
        param.transform_for_load(Tensor::from_data(data, (&device, dtype)), id)
    }

    fn map_int<const D: usize>(&mut self, param: Param<Tensor<D, Int>>) -> Param<Tensor<D, Int>> {
        let Some(data) = self.take() else {
            return param;
        };
        let (id, device, dtype) = (param.id, param.lazy_device(), data.dtype());
        param.transform_for_load(Tensor::from_data(data, (&device, dtype)), id)
    }
}

fn misfit(path: &Path, faults: &[String]) -> Error {
    let mut text = format!("{} does not fit the model: ", path.display());
    text.push_str(&faults[..faults.len().min(LISTED)].join("; "));
    if faults.len() > LISTED {
        text.push_str(&format!("; and {} more", faults.len() - LISTED));
    }
    Error::run(text)
}

/// The file's name of a number format.
fn stored(dtype: DType) -> Option<Dtype> {
    Some(match dtype {
        DType::F64 => Dtype::F64,
        DType::F32 | DType::Flex32 => Dtype::F32,
        DType::F16 => Dtype::F16,
        DType::BF16 => Dtype::BF16,
        DType::I64 => Dtype::I64,
        DType::I32 => Dtype::I32,
        DType::I16 => Dtype::I16,
        DType::I8 => Dtype::I8,
        DType::U64 => Dtype::U64,
        DType::U32 => Dtype::U32,
        DType::U16 => Dtype::U16,
        DType::U8 => Dtype::U8,
        DType::Bool(_) | DType::QFloat(_) => return None,
    })
}

/// Burn's name of a number format of a file.
fn computed(dtype: Dtype) -> Option<DType> {
    Some(match dtype {
        Dtype::F64 => DType::F64,
        Dtype::F32 => DType::F32,
        Dtype::F16 => DType::F16,
        Dtype::BF16 => DType::BF16,
        Dtype::I64 => DType::I64,
        Dtype::I32 => DType::I32,
        Dtype::I16 => DType::I16,
        Dtype::I8 => DType::I8,
        Dtype::U64 => DType::U64,
        Dtype::U32 => DType::U32,
        Dtype::U16 => DType::U16,
        Dtype::U8 => DType::U8,
        // Formats without a counterpart; `Dtype` may grow.
        _ => return None,
    })
}
