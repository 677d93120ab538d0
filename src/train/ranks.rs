//! How the processes of a run share the micro-batches of a step.
//!
//! Gradients are added as a binary tree over the micro-batches that halves at each level. A rank, one process of a run,
//! takes a whole subtree ([`super::gradients::subtree_ranges`]), so the additions of a step, and with them all bits, are the
//! same for any allowed number of ranks: a power of two that divides the number of micro-batches.

use super::config::TrainConfig;

/// Returns the number of micro-batches in every step; `None` if steps are measured in tokens and cut into
/// micro-batches, since the number then differs from step to step.
pub fn micro_batches(config: &TrainConfig) -> Option<usize> {
    let size = config.micro_batch_size().max(1);
    match (config.batch_tokens, config.micro_batch_size) {
        (None, _) => Some(config.batch_size.div_ceil(size)),
        (Some(_), None) => Some(1),
        (Some(_), Some(_)) => None,
    }
}

/// Returns all numbers of ranks that can share this many micro-batches, ascending.
pub fn allowed_counts(micro_batches: usize) -> Vec<usize> {
    let powers = (0..usize::BITS).map(|power| 1 << power);
    powers
        .take_while(|ranks| micro_batches > 0 && micro_batches.is_multiple_of(*ranks))
        .collect()
}

/// Returns the largest number of ranks that is allowed for both of these numbers of micro-batches.
pub fn largest_common(one: usize, other: usize) -> usize {
    let halvings = (one | other).max(1).trailing_zeros();
    1 << halvings
}

/// Returns the allowed number of ranks nearest to `ranks`; of two equally near ones, the smaller.
pub fn nearest(ranks: usize, micro_batches: usize) -> usize {
    let allowed = allowed_counts(micro_batches).into_iter();
    allowed.min_by_key(|n| n.abs_diff(ranks)).unwrap_or(1)
}

/// Explains why this many ranks cannot share the steps of a run, with the nearest number that can; `None` if they can.
pub fn fault(ranks: usize, config: &TrainConfig) -> Option<String> {
    let Some(count) = micro_batches(config) else {
        return power_of_two_fault(ranks);
    };
    if allowed_counts(count).contains(&ranks) {
        return None;
    }
    let near = nearest(ranks, count);
    let step = match count {
        1 => "the single micro-batch of a step".to_string(),
        _ => format!("the {count} micro-batches of a step"),
    };
    let remedy = match smaller_micro_batch(ranks, config) {
        Some(size) => format!(", or set train.micro_batch_size = {size} for {ranks}"),
        None if config.batch_tokens.is_some() => {
            ", or set train.micro_batch_size, the number of examples in a micro-batch".into()
        }
        None => String::new(),
    };
    Some(format!(
        "{ranks} ranks cannot share {step}: each rank computes a whole subtree of their binary tree, so the number of \
         ranks must be a power of two that divides {count}; take {near}{remedy}"
    ))
}

/// Explains why this many ranks cannot share any step, regardless of its number of micro-batches; `None` if they can.
pub fn power_of_two_fault(ranks: usize) -> Option<String> {
    let below = 1 << ranks.max(1).ilog2();
    let near = match ranks.saturating_sub(below) * 2 > below {
        true => below * 2,
        false => below,
    };
    (!ranks.is_power_of_two()).then(|| {
        format!(
            "{ranks} ranks cannot share a step: each rank computes a whole subtree of the binary tree of its micro-batches, so \
             the number of ranks must be a power of two; take {near}"
        )
    })
}

/// Returns the largest micro-batch size with which this many ranks share a step evenly.
fn smaller_micro_batch(ranks: usize, config: &TrainConfig) -> Option<usize> {
    let even = ranks.is_power_of_two() && config.batch_size.is_multiple_of(ranks);
    (config.batch_tokens.is_none() && even).then(|| config.batch_size / ranks)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(batch: usize, micro: Option<usize>) -> TrainConfig {
        TrainConfig {
            batch_size: batch,
            micro_batch_size: micro,
            ..TrainConfig::default()
        }
    }

    #[test]
    fn ranks_are_powers_of_two_that_divide() {
        assert_eq!(allowed_counts(1), [1]);
        assert_eq!(allowed_counts(6), [1, 2]);
        assert_eq!(allowed_counts(7), [1]);
        assert_eq!(allowed_counts(8), [1, 2, 4, 8]);
        assert_eq!(allowed_counts(0), [0; 0]);
        let near: Vec<usize> = [1, 3, 5, 6, 7, 100].map(|ranks| nearest(ranks, 8)).into();
        assert_eq!(near, [1, 2, 4, 4, 8, 8]);
        let most =
            [(4, 8), (8, 4), (4, 2), (6, 4), (3, 8), (0, 0)].map(|(a, b)| largest_common(a, b));
        assert_eq!(most, [4, 4, 2, 2, 1, 1]);
    }

    #[test]
    fn a_fault_names_the_nearest_number_and_the_key() {
        assert_eq!(fault(4, &config(32, Some(8))), None);
        let told = fault(3, &config(32, Some(8))).unwrap();
        assert!(told.ends_with("divides 4; take 2"), "{told}");
        let told = fault(8, &config(32, Some(8))).unwrap();
        let remedy = "take 4, or set train.micro_batch_size = 4 for 8";
        assert!(told.ends_with(remedy), "{told}");
        let told = fault(2, &config(32, None)).unwrap();
        assert!(told.contains("the single micro-batch of a step"), "{told}");
        assert!(told.ends_with("take 1, or set train.micro_batch_size = 16 for 2"));
    }

    /// The number of micro-batches differs from step to step.
    #[test]
    fn steps_in_tokens_need_a_power_of_two() {
        let mut tokens = config(32, Some(8));
        tokens.batch_tokens = Some(4096);
        assert_eq!((fault(4, &tokens), micro_batches(&tokens)), (None, None));
        assert!(fault(6, &tokens).unwrap().ends_with("take 4"));
        assert!(fault(7, &tokens).unwrap().ends_with("take 8"));
        tokens.micro_batch_size = None;
        assert_eq!(micro_batches(&tokens), Some(1));
        let told = fault(2, &tokens).unwrap();
        assert!(
            told.contains("take 1, or set train.micro_batch_size,"),
            "{told}"
        );
    }
}
