//! Normalises queries and keys to length 1, and computes the gradients of the originals.

use cubecl::prelude::*;

use crate::kernel::cube::chunks::is_taken;
use crate::kernel::cube::launch::cube_sum;
use crate::kernel::cube::ssd::chunk::Form;
use crate::kernel::delta_rule::EPS;

/// A query or a key: the offset of the original in queries, keys and values, the offset of the normalised vector in
/// corrections, keys and queries, and the target length.
#[derive(CubeType, Clone, Copy)]
struct Directed {
    line: u32,
    from: u32,
    to: u32,
    length: f32,
}

/// Returns the vector of a cube; queries get length `shorter`, keys length 1.
#[cube]
fn vector_of(cube: u32, shorter: f32, #[comptime] form: Form) -> Directed {
    let count = comptime!(2 * form.groups);
    let line = cube / count;
    let number = cube % count;
    let first = line * comptime!(form.mixed());
    let turned = (number + form.groups) % count;
    Directed {
        line,
        from: first + number * form.n,
        to: first + comptime!(form.channels()) + turned * form.n,
        length: select(number < form.groups, shorter, 1.0f32),
    }
}

/// Returns the inverse length of a query or key, for all units of a cube.
#[cube]
fn inverse_of(
    mixed: &[f32],
    vector: &Directed,
    shared: &mut Shared<[f32]>,
    #[comptime] units: u32,
    #[comptime] form: Form,
) -> f32 {
    let mut sum = 0.0f32;
    let mut i = UNIT_POS;
    while i < form.n {
        let x = mixed[(vector.from + i) as usize];
        sum += x * x;
        i += units;
    }
    1.0f32 / (cube_sum(sum, shared, units) + f32::new(EPS as f32)).sqrt()
}

/// Writes keys, then queries, after the places of the corrections: one cube per vector.
#[cube(launch)]
pub fn units_of(
    mixed: &[f32],
    inner: &mut [f32],
    work: u32,
    shorter: f32,
    #[comptime] units: u32,
    #[comptime] form: Form,
) {
    let cube = CUBE_POS as u32;
    if cube >= work {
        terminate!();
    }
    let mut shared = Shared::<[f32]>::new_slice(comptime!(units as usize));
    let vector = vector_of(cube, shorter, form);
    let factor = vector.length * inverse_of(mixed, &vector, &mut shared, units, form);
    let mut i = UNIT_POS;
    while i < form.n {
        inner[(vector.to + i) as usize] = mixed[(vector.from + i) as usize] * factor;
        i += units;
    }
}

/// Computes the gradients of queries and keys from those of the normalised vectors; zeros past a row's end.
#[cube(launch)]
pub fn of_units(
    mixed: &[f32],
    inner: &[f32],
    of_inner: &[f32],
    codes: &[i32],
    of_mixed: &mut [f32],
    work: u32,
    shorter: f32,
    #[comptime] units: u32,
    #[comptime] form: Form,
) {
    let cube = CUBE_POS as u32;
    if cube >= work {
        terminate!();
    }
    let mut shared = Shared::<[f32]>::new_slice(comptime!(units as usize));
    let vector = vector_of(cube, shorter, form);
    let inverse = inverse_of(mixed, &vector, &mut shared, units, form);
    let mut product = 0.0f32;
    let mut i = UNIT_POS;
    while i < form.n {
        let at = (vector.to + i) as usize;
        product += inner[at] * of_inner[at];
        i += units;
    }
    let along = cube_sum(product, &mut shared, units) / (vector.length * vector.length);
    let mut taken = true;
    if comptime!(form.coded) {
        taken = is_taken(codes[vector.line as usize] as u32);
    }
    let factor = vector.length * inverse;
    let mut i = UNIT_POS;
    while i < form.n {
        let at = (vector.to + i) as usize;
        let of_vector = factor * (of_inner[at] - along * inner[at]);
        of_mixed[(vector.from + i) as usize] = select(taken, of_vector, 0.0f32);
        i += units;
    }
}
