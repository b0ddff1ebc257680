//! Names that look like an unknown one, for errors that ask "did you mean".
//!
//! Owns: the measure of nearness and its bounds. Does not own: which names are worth suggesting.

use super::SEPARATOR;

/// Longest name, in characters, that is compared when looking for near misses.
const LONGEST_COMPARED: usize = 256;

/// Most candidates looked at when looking for near misses.
const MOST_COMPARED: usize = 5_000;

/// Cells of all distance tables together: what bounds the time of one search.
const COMPARISON_BUDGET: usize = 16_000_000;

/// Names among `candidates` that somebody who wrote `wanted` may have meant, the nearest first, `most` at most.
///
/// Case does not count; a full name whose tool part was wanted is near. Bounded: names over 256 characters
/// are passed over and at most 5,000 candidates are looked at, fewer where names are long.
pub fn near_misses<'a>(wanted: &str, candidates: impl Iterator<Item = &'a str>, most: usize) -> Vec<String> {
    let Some((wanted, length)) = folded(wanted) else { return Vec::new() };
    let tolerance = (length / 3).max(1);
    let tail = format!("{SEPARATOR}{wanted}");
    let mut budget = COMPARISON_BUDGET;
    let mut found: Vec<(usize, &str)> = Vec::new();
    for candidate in candidates.take(MOST_COMPARED) {
        let Some((name, name_length)) = folded(candidate) else { continue };
        if name.ends_with(&tail) {
            found.push((0, candidate));
            continue;
        }
        if name_length.abs_diff(length) > tolerance {
            continue;
        }
        let Some(rest) = budget.checked_sub(length * name_length) else { break };
        budget = rest;
        let distance = strsim::osa_distance(&wanted, &name);
        if distance <= tolerance {
            found.push((distance, candidate));
        }
    }
    found.sort_unstable();
    found.dedup();
    found.into_iter().take(most).map(|(_, name)| name.to_owned()).collect()
}

/// A name without case, and its length in characters; `None` if it is empty or too long to compare.
fn folded(name: &str) -> Option<(String, usize)> {
    // Four bytes a character at most: what is longer need not be counted.
    if name.is_empty() || name.len() > LONGEST_COMPARED * 4 {
        return None;
    }
    let lower = name.to_lowercase();
    let length = lower.chars().count();
    (length <= LONGEST_COMPARED).then_some((lower, length))
}
