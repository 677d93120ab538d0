//! The kind of each parameter and its place in a network, as declared by the modules that hold it.
//!
//! Each module's file has a [`Roles`] table for the fields that declare something: a linear map for its weight and bias, a
//! network for its embedding, its blocks, its head. Vocabulary checks, layer-wise learning rates and plans query these
//! declarations, so that a test finds or rejects a new module, and no rule parses the text of a path.

/// The kind of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterKind {
    /// A weight that multiplies vectors.
    Weight,
    /// A vector added to the products of a weight.
    Bias,
    /// Gain or shift of a norm.
    Norm,
    /// A table whose vectors are looked up.
    Table,
    /// State that is kept beside the parameters and follows the data; no optimizer updates it.
    State,
    /// A constant that never changes.
    Fixed,
}

impl ParameterKind {
    /// Whether no optimizer updates the parameter.
    pub fn is_untrained(self) -> bool {
        matches!(self, Self::State | Self::Fixed)
    }
}

/// The place of a parameter in the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Token embeddings of the input and, in a network with one vocabulary, of the output.
    Tokens,
    /// Embeddings of the source tokens, in a network with two vocabularies.
    SourceTokens,
    /// Parts before the first block other than token embeddings.
    Input,
    /// The position scheme.
    Position,
    /// The blocks.
    Blocks,
    /// In a block, the layer that mixes positions or attends to a memory.
    Mixer,
    /// The recurrent cells.
    Recurrence,
    /// In a block, the layer that processes each position by itself.
    FeedForward,
    /// Parts after the last block that have no row for each token.
    Head,
    /// The LM head: one row for each token.
    TokenHead,
    /// A head with scores of tokens that is used only in training.
    Auxiliary,
}

/// The stack that a parameter belongs to, in a network with two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackSide {
    /// The stack that reads the source.
    Encoder,
    /// The stack that writes the target.
    Decoder,
    /// The generator, used only in training.
    Generator,
    /// The decoder of masked pixels, used only in training.
    PixelDecoder,
    /// The head of self-distillation or of contrastive pretraining, used only in training.
    ProjectionHead,
}

/// What a field declares about the parameters in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Declaration {
    /// The kind of the parameters.
    Kind(ParameterKind),
    /// The place of the parameters.
    Place(Place),
    /// The field holds stages of blocks.
    Stages,
    /// The stack that the parameters belong to.
    Side(StackSide),
}

/// The declarations of the fields of one struct.
#[derive(Clone, Copy, Debug)]
pub struct Roles {
    /// The struct's name.
    pub holder: &'static str,
    /// The fields that declare something, with their declarations.
    pub fields: &'static [(&'static str, Declaration)],
}

impl Roles {
    /// Builds the table of a struct's fields.
    pub const fn new(holder: &'static str, fields: &'static [(&'static str, Declaration)]) -> Self {
        Self { holder, fields }
    }
}

/// The role of a parameter; an entry is `None` if no field on the parameter's path declares it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Role {
    /// Kind of the parameter.
    pub kind: Option<ParameterKind>,
    /// Place of the parameter.
    pub place: Option<Place>,
    /// Number of the stage, if the parameter is in a stage.
    pub stage: Option<usize>,
    /// Number of the block, if the parameter is in a block; in stages the number within the stage.
    pub block: Option<usize>,
    /// The stack of the parameter, in a network with two.
    pub side: Option<StackSide>,
}

/// What a number in a path counts.
#[derive(Clone, Copy)]
enum PathNumber {
    Blocks,
    Stages,
}

impl Role {
    /// Returns the role of the parameter at the end of `way`, pairs (field, container) from the root, by the tables of `roles`.
    pub fn of<'p>(
        way: impl Iterator<Item = (&'p str, &'p str)>,
        roles: &[&'static [Roles]],
    ) -> Self {
        let mut role = Self::default();
        let mut numbered = None;
        for (field, container) in way {
            if let Some(counted) = numbered.take() {
                match counted {
                    PathNumber::Blocks => role.block = field.parse().ok(),
                    PathNumber::Stages => role.stage = field.parse().ok(),
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
                    Declaration::Kind(kind) => role.kind = Some(*kind),
                    Declaration::Side(side) => role.side = Some(*side),
                    // A network inside another network's input counts entirely as input.
                    Declaration::Place(_) | Declaration::Stages
                        if role.place == Some(Place::Input) => {}
                    Declaration::Place(place) => {
                        role.place = Some(*place);
                        numbered = (*place == Place::Blocks).then_some(PathNumber::Blocks);
                    }
                    Declaration::Stages => {
                        role.place = Some(Place::Blocks);
                        numbered = Some(PathNumber::Stages);
                    }
                }
            }
        }
        role
    }

    /// Whether the parameter has a row or column for each token of a vocabulary.
    pub fn has_row_per_token(self) -> bool {
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

    /// Whether the parameter comes before the first block.
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

pub(crate) const WEIGHT: Declaration = Declaration::Kind(ParameterKind::Weight);
pub(crate) const BIAS: Declaration = Declaration::Kind(ParameterKind::Bias);
pub(crate) const NORM: Declaration = Declaration::Kind(ParameterKind::Norm);
pub(crate) const TABLE: Declaration = Declaration::Kind(ParameterKind::Table);
pub(crate) const STATE: Declaration = Declaration::Kind(ParameterKind::State);
pub(crate) const FIXED: Declaration = Declaration::Kind(ParameterKind::Fixed);

#[cfg(test)]
mod tests {
    use super::*;

    const TABLES: &[Roles] = &[
        Roles::new("Linear", &[("weight", WEIGHT)]),
        Roles::new("Stack", &[("blocks", Declaration::Place(Place::Blocks))]),
        Roles::new(
            "Net",
            &[
                ("head", Declaration::Place(Place::TokenHead)),
                ("stem", Declaration::Place(Place::Input)),
                ("stages", Declaration::Stages),
            ],
        ),
    ];

    #[test]
    fn the_innermost_declaration_holds_but_for_inputs() {
        let role = |way: &[(&str, &str)]| Role::of(way.iter().copied(), &[TABLES]);
        let head = role(&[("head", "Struct:Net"), ("weight", "Struct:Linear")]);
        assert_eq!(head.place, Some(Place::TokenHead));
        assert!(head.has_row_per_token());
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
