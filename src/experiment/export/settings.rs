//! Writes the `generation_config.json` of a folder.

use super::super::open::OpenedRun;
use crate::error::Result;
use crate::generate::beam::BeamConfig;
use crate::interop::generation::{self, GenerationSettings, TextKind};
use crate::model::Use;
use crate::train::run_dir;
use std::path::Path;

/// Writes the generation settings: those that the run was imported with, or its own settings with the special tokens of its
/// tokenizer.
pub(super) fn write(
    dir: &Path,
    run: &Path,
    opened: &OpenedRun,
    notes: &mut Vec<String>,
) -> Result<()> {
    let decode = &opened.experiment.decode;
    let sampling = super::chat::with_answer_end(&decode.sampling, opened, notes);
    let search = BeamConfig {
        // A recording has no token count that a length could be relative to.
        max_len_a: 0.0,
        ..decode.search.clone()
    };
    let begun = super::special_tokens::transcript_prefix(opened);
    let (of, writes) = match opened.experiment.task.network_use() {
        Use::TextToText => (TextKind::Pairs, GenerationSettings::Pairs(&decode.search)),
        Use::SpeechToText => (
            TextKind::Transcripts,
            GenerationSettings::Transcripts(&search, &begun),
        ),
        Use::NextTokens => {
            let beams = decode.beam_search.as_ref();
            (
                TextKind::Continuations,
                GenerationSettings::Continuations(&sampling, beams),
            )
        }
        Use::MaskedTokens
        | Use::TextClasses
        | Use::TextRegression
        | Use::TextEmbeddings
        | Use::TokenClasses
        | Use::Spans
        | Use::ImageClasses
        | Use::MaskedPatches
        | Use::ImageViews
        | Use::ImageText
        | Use::ImageToText
        | Use::SpeechCharacters
        | Use::MaskedFrames => return Ok(()),
    };
    let mut kept = generation::read_kept(&run.join(run_dir::HF_GENERATION), of)?;
    if let Some(kept) = &mut kept {
        // The import leaves these out as well.
        kept.drop_suppressed_beyond(opened.shape.vocab_size);
    }
    let writer = opened.tokenizers.target_tokenizer();
    if kept.is_none() && writer.is_none() {
        return Ok(());
    }
    let without = generation::write(
        dir,
        writes,
        super::special_tokens::text_marks(opened),
        kept.as_ref(),
    )?;
    notes.extend(
        without
            .into_iter()
            .map(|what| format!("generation_config.json cannot express {what}")),
    );
    Ok(())
}
