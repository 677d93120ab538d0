//! The kind of a parameter and its place in a network, as the modules that hold it declare.
//!
//! Each module's file has a [`Roles`] for the fields that say something: a linear map its weight and bias, a network its
//! embedding, its blocks, its head. Checks of vocabularies, learning rates by layer and plans ask these declarations, so
//! that a new module is found or refused by a test, and no rule reads the text of a path.

/// The kind of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterKind {
    /// It multiplies vectors.
    Weight,
    /// It is added to the products of a weight.
    Bias,
    /// A norm's gain or shift.
    Norm,
    /// Vectors that are looked up.
    Table,
    /// It is kept beside the parameters and moves with what is seen; no optimizer moves it.
    State,
    /// It stays as it is.
    Fixed,
}

impl ParameterKind {
    /// Whether no optimizer moves it.
    pub fn is_untrained(self) -> bool {
        matches!(self, Self::State | Self::Fixed)
    }
}

/// Where a parameter stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Vectors of tokens that are read and, in a network with one vocabulary, written.
    Tokens,
    /// Vectors of a source's tokens, in a network with two vocabularies.
    SourceTokens,
    /// Before the first block, beside the tokens' vectors.
    Input,
    /// The position scheme.
    Position,
    /// The blocks.
    Blocks,
    /// In a block, the layer that mixes positions, or looks at a memory.
    Mixer,
    /// The recurrent cells.
    Recurrence,
    /// In a block, the layer that sees each position by itself.
    FeedForward,
    /// After the last block, without a row for each token.
    Head,
    /// The scores of tokens: a row for each of them.
    TokenHead,
    /// Scores of tokens that training alone uses.
    Auxiliary,
}

/// Which stack of a network with two a parameter stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// That which reads the source.
    Reads,
    /// That which writes the target.
    Writes,
    /// That of a generator, which training alone uses.
    Generates,
    /// That of a decoder of hidden pixels, which training alone uses.
    Reconstructs,
    /// That of a head of self-distillation, which training alone uses.
    Projects,
}

/// The statement of a field about the parameters in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Says {
    /// Their kind.
    Is(ParameterKind),
    /// Where they stand.
    Stands(Place),
    /// They are stages of blocks.
    Stages,
    /// Which stack they stand in.
    In(Side),
}

/// The statements of the fields of one struct.
#[derive(Clone, Copy, Debug)]
pub struct Roles {
    /// The struct's name.
    pub holder: &'static str,
    /// Its fields that say something.
    pub fields: &'static [(&'static str, Says)],
}

impl Roles {
    /// A table of a struct's fields.
    pub const fn new(holder: &'static str, fields: &'static [(&'static str, Says)]) -> Self {
        Self { holder, fields }
    }
}

/// A parameter's role; what no field on the way to it says is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Role {
    /// Its kind.
    pub kind: Option<ParameterKind>,
    /// Where it stands.
    pub place: Option<Place>,
    /// The number of its stage, of those that stand in stages.
    pub stage: Option<usize>,
    /// The number of its block, of those that stand in blocks; in stages the number within the stage.
    pub block: Option<usize>,
    /// Its stack, in a network with two.
    pub side: Option<Side>,
}

/// The meaning of a number in a way.
#[derive(Clone, Copy)]
enum Counted {
    Blocks,
    Stages,
}

impl Role {
    /// The role at the end of a way of (field, container) from the root, by the tables of `roles`.
    pub fn of<'p>(
        way: impl Iterator<Item = (&'p str, &'p str)>,
        roles: &[&'static [Roles]],
    ) -> Self {
        let mut role = Self::default();
        let mut numbered = None;
        for (field, container) in way {
            if let Some(counted) = numbered.take() {
                match counted {
                    Counted::Blocks => role.block = field.parse().ok(),
                    Counted::Stages => role.stage = field.parse().ok(),
                }
                continue;
            }
            let holder = container.strip_prefix("Struct:").unwrap_or(container);
            let tables = roles.iter().flat_map(|table| table.iter());
            let fields = tables
                .filter(|table| table.holder == holder)
                .flat_map(|table| table.fields);
            for (_, says) in fields.filter(|(name, _)| *name == field) {
                match says {
                    Says::Is(kind) => role.kind = Some(*kind),
                    Says::In(side) => role.side = Some(*side),
                    // A network inside of another one's input is all input.
                    Says::Stands(_) | Says::Stages if role.place == Some(Place::Input) => {}
                    Says::Stands(place) => {
                        role.place = Some(*place);
                        numbered = (*place == Place::Blocks).then_some(Counted::Blocks);
                    }
                    Says::Stages => {
                        role.place = Some(Place::Blocks);
                        numbered = Some(Counted::Stages);
                    }
                }
            }
        }
        role
    }

    /// Whether a row or column of it belongs to each token of a vocabulary.
    pub fn is_of_tokens(self) -> bool {
        let tokens = [
            Place::Tokens,
            Place::SourceTokens,
            Place::TokenHead,
            Place::Auxiliary,
        ];
        let rows = matches!(
            self.kind,
            Some(ParameterKind::Table | ParameterKind::Weight | ParameterKind::Bias)
        );
        rows && self.place.is_some_and(|place| tokens.contains(&place))
    }

    /// Whether it stands before the first block.
    pub fn is_input(self) -> bool {
        match self.place {
            Some(Place::Tokens | Place::SourceTokens | Place::Input | Place::Position) => true,
            Some(
                Place::Blocks
                | Place::Mixer
                | Place::Recurrence
                | Place::FeedForward
                | Place::Head
                | Place::TokenHead
                | Place::Auxiliary,
            )
            | None => false,
        }
    }
}

pub(crate) const WEIGHT: Says = Says::Is(ParameterKind::Weight);
pub(crate) const BIAS: Says = Says::Is(ParameterKind::Bias);
pub(crate) const NORM: Says = Says::Is(ParameterKind::Norm);
pub(crate) const TABLE: Says = Says::Is(ParameterKind::Table);
pub(crate) const STATE: Says = Says::Is(ParameterKind::State);
pub(crate) const FIXED: Says = Says::Is(ParameterKind::Fixed);

#[cfg(test)]
mod tests {
    use super::*;

    const TABLES: &[Roles] = &[
        Roles::new("Linear", &[("weight", WEIGHT)]),
        Roles::new("Stack", &[("blocks", Says::Stands(Place::Blocks))]),
        Roles::new(
            "Net",
            &[
                ("head", Says::Stands(Place::TokenHead)),
                ("stem", Says::Stands(Place::Input)),
                ("stages", Says::Stages),
            ],
        ),
    ];

    #[test]
    fn the_innermost_declaration_holds_but_for_inputs() {
        let role = |way: &[(&str, &str)]| Role::of(way.iter().copied(), &[TABLES]);
        let head = role(&[("head", "Struct:Net"), ("weight", "Struct:Linear")]);
        assert_eq!(head.place, Some(Place::TokenHead));
        assert!(head.is_of_tokens());
        let block = role(&[
            ("stack", "Struct:Net"),
            ("blocks", "Struct:Stack"),
            ("3", "Vec"),
            ("weight", "Struct:Linear"),
        ]);
        assert_eq!((block.place, block.block), (Some(Place::Blocks), Some(3)));
        let stem = role(&[
            ("stem", "Struct:Net"),
            ("blocks", "Struct:Stack"),
            ("3", "Vec"),
        ]);
        assert!(stem.is_input() && stem.block.is_none());
        let staged = role(&[
            ("stages", "Struct:Net"),
            ("2", "Vec"),
            ("blocks", "Struct:Stack"),
            ("1", "Vec"),
            ("weight", "Struct:Linear"),
        ]);
        assert_eq!((staged.stage, staged.block), (Some(2), Some(1)));
        let behind = role(&[
            ("stages", "Struct:Net"),
            ("2", "Vec"),
            ("merging", "Struct:Stage"),
        ]);
        assert_eq!((behind.stage, behind.block), (Some(2), None));
        assert_eq!(role(&[("other", "Struct:Net")]), Role::default());
    }
}
