//! Transcription: Whisper against transformers' (`tests/goldens/make_whisper.py`), contracts of network and task over all kinds
//! of audio encoder, and runs from training to transcripts.

mod cases;
mod contracts;
mod faults;
mod folders;
mod runs;

pub use runs::{dialled, wav};

use crate::batches;
use crate::goldens::TOLERANCE;
use crate::oracle::{Oracle, hf_folder, values};
use crate::transfer::{Against, gradients_of, opened};
use burn::tensor::{Tensor, TensorData};
use burn::train::TrainStep;
use formwork::data::batch::{Content, SpeechBatch, SpokenBatch, TextBatch};
use formwork::interop::read_hf;
use formwork::nn::pass::Pass;

fn batch(oracle: &Oracle) -> SpokenBatch {
    let features = oracle.array("input_features");
    let (shape, inputs) = oracle.integers("decoder_input_ids");
    let (_, targets) = oracle.integers("labels");
    SpokenBatch {
        speech: SpeechBatch {
            features: features.values,
            rows: shape[0],
            n_mels: features.shape[1],
            n_frames: features.shape[2],
            ..SpeechBatch::default()
        },
        transcripts: TextBatch {
            inputs,
            targets,
            cols: shape[1],
            ..TextBatch::default()
        },
    }
}

#[test]
fn states_logits_loss_and_gradients_are_those_of_transformers() {
    for name in ["whisper", "whisper_sides"] {
        let oracle = Oracle::open(name);
        let weights = oracle.arrays(|name| name.strip_prefix("weight."));
        let folder = hf_folder(&oracle.config(), &weights);
        let hf = read_hf(folder.path(), &[]).unwrap();
        let task = opened(&hf);
        let mut against = Against::new(name, &oracle, TOLERANCE);
        let network = task.networks().transcription.unwrap();
        let (given, pass) = (batch(&oracle), Pass::evaluation());
        let source = network.model.encode(network.features(&given.speech), &pass);
        against.check("encoder", &values(source.states.clone()));
        let shape = [given.speech.rows, given.transcripts.cols];
        let ids = TensorData::new(given.transcripts.inputs.clone(), shape);
        let ids = Tensor::from_data(ids, &network.device());
        let hidden = network.model.decode(ids, &source, None, &pass);
        let logits = network.model.vocabulary_head().logits(hidden);
        against.check("logits", &values(logits));
        let stepped = TrainStep::step(&task, batches::of(Content::Spoken(given), 3).into());
        let (ours, theirs) = (
            stepped.item.loss.mean() as f32,
            oracle.array("loss").values[0],
        );
        assert!((ours - theirs).abs() < 1e-4 * theirs, "{ours} and {theirs}");
        let mut table = hf.table();
        table.constants.clear();
        against.check_gradients(&gradients_of(&task, &stepped.grads), &table);
    }
}
