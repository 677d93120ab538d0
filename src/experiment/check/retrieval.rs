//! Checks retrieval: a model that reads neighbours needs a database, and a database needs a model that reads neighbours.

use super::Checker;

/// Checks `[model.retrieval]` and `[data.retrieval]` against each other.
pub(super) fn check(sense: &mut Checker) {
    let experiment = &sense.loaded.experiment;
    let (data, database) = (&experiment.data, experiment.data.data_set().retrieval());
    let Some(model) = experiment.model.retrieval() else {
        if database.is_some() {
            let rule =
                "has no effect: the model reads no neighbours; add [model.retrieval], or remove it";
            sense.fault(&["data.retrieval.compare", "data.retrieval"], rule);
        }
        return;
    };
    if data.is_imported() {
        return;
    }
    if database.is_none() {
        let rule = format!(
            "reads neighbours, but [data] kind = \"{}\" has no database: add [data.retrieval], which kinds text and people \
             support, or remove it",
            data.kind()
        );
        sense.fault(&["model.retrieval.chunk", "data.kind"], rule);
    }
    if experiment.train.carry_state {
        let rule = "carry_state = true continues a text from step to step, but neighbours are found for separate windows; \
                    remove it or [model.retrieval]";
        sense.fault(&["train.carry_state", "model.retrieval.chunk"], rule);
    }
    let stride = data.data_set().stride();
    if let Some(stride) =
        stride.filter(|stride| model.chunk > 0 && !stride.is_multiple_of(model.chunk))
    {
        let rule = format!(
            "eval_stride = {stride} is not a multiple of the {} tokens of a chunk ([model.retrieval] chunk), at which windows begin",
            model.chunk
        );
        sense.fault(&["data.eval_stride", "model.retrieval.chunk"], rule);
    }
}
