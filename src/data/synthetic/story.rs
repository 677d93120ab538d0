//! The vocabulary and the sentences of `kind = "grammar"`.

use crate::rng::Stream;

/// The actors, in singular and plural.
const BEINGS: [[&str; 2]; 16] = [
    ["fox", "foxes"],
    ["owl", "owls"],
    ["bear", "bears"],
    ["hare", "hares"],
    ["cat", "cats"],
    ["dog", "dogs"],
    ["goat", "goats"],
    ["crow", "crows"],
    ["baker", "bakers"],
    ["sailor", "sailors"],
    ["farmer", "farmers"],
    ["painter", "painters"],
    ["child", "children"],
    ["giant", "giants"],
    ["queen", "queens"],
    ["miller", "millers"],
];
const COLOURS: [&str; 8] = [
    "red", "blue", "green", "white", "black", "yellow", "brown", "grey",
];
const HOURS: [&str; 12] = [
    "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve",
];
/// Verbs and pronouns for the singular and the plural.
const GIVE: [&str; 2] = ["gives", "give"];
const HAVE: [&str; 2] = ["has", "have"];
const PRONOUN: [&str; 2] = ["it", "they"];

/// A place, the things in it, and the verbs for what is done there.
struct Place {
    name: &'static str,
    things: [&'static str; 5],
    /// Verb forms in singular and plural.
    verbs: [[&'static str; 2]; 3],
}

const PLACES: [Place; 8] = [
    Place {
        name: "harbour",
        things: ["rope", "net", "boat", "anchor", "sail"],
        verbs: [["mends", "mend"], ["ties", "tie"], ["pulls", "pull"]],
    },
    Place {
        name: "kitchen",
        things: ["pot", "spoon", "cake", "kettle", "plate"],
        verbs: [["washes", "wash"], ["fills", "fill"], ["warms", "warm"]],
    },
    Place {
        name: "garden",
        things: ["rose", "spade", "hedge", "apple", "bench"],
        verbs: [["waters", "water"], ["plants", "plant"], ["picks", "pick"]],
    },
    Place {
        name: "school",
        things: ["book", "pencil", "map", "slate", "globe"],
        verbs: [["reads", "read"], ["draws", "draw"], ["copies", "copy"]],
    },
    Place {
        name: "market",
        things: ["basket", "coin", "cloth", "melon", "scale"],
        verbs: [["buys", "buy"], ["sells", "sell"], ["weighs", "weigh"]],
    },
    Place {
        name: "forest",
        things: ["branch", "nest", "mushroom", "stone", "trap"],
        verbs: [["hides", "hide"], ["finds", "find"], ["buries", "bury"]],
    },
    Place {
        name: "castle",
        things: ["crown", "sword", "shield", "torch", "banner"],
        verbs: [
            ["guards", "guard"],
            ["polishes", "polish"],
            ["lifts", "lift"],
        ],
    },
    Place {
        name: "workshop",
        things: ["hammer", "wheel", "chair", "saw", "ladder"],
        verbs: [
            ["builds", "build"],
            ["repairs", "repair"],
            ["paints", "paint"],
        ],
    },
];

const FUNCTION_WORDS: [&str; 18] = [
    ".", "the", "day", "is", "in", "there", "a", "are", "two", "and", "at", "then", "to", "now",
    "it", "they", "has", "have",
];

/// Returns every word that stories can contain, each once.
pub(super) fn words() -> Vec<&'static str> {
    let mut words: Vec<&str> = Vec::new();
    let places = PLACES.iter().flat_map(|place| {
        let verbs = place.verbs.as_flattened();
        std::iter::once(&place.name)
            .chain(&place.things)
            .chain(verbs)
    });
    let all = FUNCTION_WORDS
        .iter()
        .chain(&GIVE)
        .chain(&HOURS)
        .chain(&COLOURS)
        .chain(BEINGS.as_flattened())
        .chain(places);
    for word in all {
        if !words.contains(word) {
            words.push(word);
        }
    }
    words
}

/// A party: what it is, its colour, and whether it is one (0) or several (1).
#[derive(Clone, Copy)]
struct Party {
    being: usize,
    colour: usize,
    number: usize,
}

impl Party {
    fn name(&self) -> String {
        let being = BEINGS[self.being][self.number];
        format!("the {} {being}", COLOURS[self.colour])
    }

    fn enters(&self) -> String {
        let being = BEINGS[self.being][self.number];
        let colour = COLOURS[self.colour];
        match self.number {
            0 => format!("there is a {colour} {being}"),
            _ => format!("there are two {colour} {being}"),
        }
    }
}

fn pick(n: usize, stream: &mut Stream) -> usize {
    stream.below(n as u64) as usize
}

/// Draws two different numbers below `n`.
fn two(n: usize, stream: &mut Stream) -> [usize; 2] {
    let first = pick(n, stream);
    let second = (first + 1 + pick(n - 1, stream)) % n;
    [first, second]
}

/// Returns a document of `sentences` sentences, which must be at least two.
pub(super) fn tell(sentences: usize, stream: &mut Stream) -> Vec<String> {
    let place = &PLACES[pick(PLACES.len(), stream)];
    let (beings, colours) = (two(BEINGS.len(), stream), two(COLOURS.len(), stream));
    let parties = [0, 1].map(|i| Party {
        being: beings[i],
        colour: colours[i],
        number: pick(2, stream),
    });
    let painted = place.things.map(|_| COLOURS[pick(COLOURS.len(), stream)]);
    let mut story = vec![
        format!("the day is in the {} .", place.name),
        format!("{} and {} .", parties[0].enters(), parties[1].enters()),
    ];
    let mut hour = pick(3, stream);
    while story.len() < sentences {
        let actor = pick(2, stream);
        let (who, other) = (parties[actor], parties[1 - actor]);
        let thing = pick(place.things.len(), stream);
        let verb = place.verbs[pick(place.verbs.len(), stream)][who.number];
        let the_thing = format!("the {} {}", painted[thing], place.things[thing]);
        story.push(format!(
            "at {} {} {verb} {the_thing} .",
            HOURS[hour],
            who.name()
        ));
        if pick(2, stream) == 0 {
            let (it, gives) = (PRONOUN[who.number], GIVE[who.number]);
            story.push(format!(
                "then {it} {gives} {the_thing} to {} .",
                other.name()
            ));
            let has = HAVE[other.number];
            story.push(format!("now {} {has} {the_thing} .", other.name()));
        }
        hour = (hour + 1) % HOURS.len();
    }
    story.truncate(sentences);
    story
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Purpose;

    #[test]
    fn every_word_is_known_and_numbers_agree() {
        let words = words();
        for number in 0..200 {
            let mut stream = Stream::new(3, Purpose::Split, (number, 0, 0));
            let story = tell(14, &mut stream);
            assert_eq!(story.len(), 14);
            for sentence in &story {
                assert!(
                    sentence.split(' ').all(|word| words.contains(&word)),
                    "{sentence}"
                );
            }
            let several = BEINGS.map(|[_, several]| several);
            for sentence in story.iter().filter(|s| s.starts_with("now")) {
                let parts: Vec<&str> = sentence.split(' ').collect();
                assert_eq!(
                    several.contains(&parts[3]),
                    parts[4] == "have",
                    "{sentence}"
                );
            }
        }
    }
}
