//! Turns articles into pairs of token ids: ranks, encodes and cuts them.

use std::sync::Arc;

use rayon::prelude::*;

use super::ArticlesConfig;
use crate::data::files::articles::Article;
use crate::data::pairs::Texts;
use crate::data::pairs::framing::{Framing, framings, is_framed, pair as framed_pair};
use crate::data::text::texts;
use crate::data::{
    Data, DataSet, Item, PairItem, PerSplit, Request, Shape, Source, Split, Tokenizers,
};
use crate::error::{Error, Result};
use crate::tokenizer::{TokenFraming, Tokenizer};

/// A source of pairs held in memory.
struct Pairs {
    items: Vec<PairItem>,
    split: Split,
}

impl Source for Pairs {
    fn len(&self) -> usize {
        self.items.len()
    }

    fn get(&self, sample: u64, _draw: u64) -> Result<Item> {
        Ok(Item::Pair(self.items[sample as usize].clone()))
    }

    fn size(&self, sample: u64) -> usize {
        let item = &self.items[sample as usize];
        item.source.len().max(item.target.len())
    }

    fn split(&self) -> Split {
        self.split
    }
}

impl ArticlesConfig {
    /// Returns the source and the target of an article; `None` for one without a lead or without sections.
    fn pair(&self, article: &Article, split: Split, number: u64) -> Option<(String, String)> {
        if article.lead.is_empty() || article.body.is_empty() {
            return None;
        }
        let order = self
            .ranking
            .order(&article.title, &article.body, split, number);
        let ranked = order.iter().map(|i| article.body[*i].as_str());
        let title = self.title.then_some(article.title.as_str());
        let source: Vec<&str> = title.into_iter().chain(ranked).collect();
        Some((source.join(" "), article.lead.join(" ")))
    }

    /// Returns the texts of a split, and the number of its articles that give none.
    fn texts(&self, documents: &[Vec<u8>], split: Split) -> Result<(Texts, usize)> {
        let pairs = documents
            .par_iter()
            .enumerate()
            .map(|(number, document)| {
                let article = Article::read(document, self.lead_ends)
                    .map_err(|e| Error::run(format!("the {} articles: {e}", split.name())))?;
                Ok(self.pair(&article, split, number as u64))
            })
            .collect::<Result<Vec<_>>>()?;
        let mut texts = Texts::default();
        for (source, target) in pairs.into_iter().flatten() {
            texts.push(source, vec![target]);
        }
        let left_out = documents.len() - texts.len();
        Ok((texts, left_out))
    }

    /// Encodes pairs of texts, each with the bytes of text that the scored tokens of its target stand for.
    fn encoded(
        &self,
        texts: &Texts,
        tokenizer: &Tokenizer,
        framings: [&Framing; 2],
    ) -> Result<Vec<(PairItem, usize)>> {
        let ids = |text: &str| -> Result<Vec<i32>> {
            let ids = tokenizer.encode(text)?.into_iter();
            Ok(ids.map(|id| id as i32).collect())
        };
        let pair = |number: usize| {
            let (source, targets) = texts.pair(number);
            let lead = targets.first().map_or("", String::as_str);
            let target = ids(lead)?;
            let most = self.max_target.saturating_sub(framings[1].before());
            let bytes = match target.get(..most) {
                Some(kept) if kept.len() < target.len() => {
                    let kept: Vec<u32> = kept.iter().map(|id| *id as u32).collect();
                    tokenizer.decode(&kept).len()
                }
                _ => lead.len(),
            };
            let longest = [self.max_source, self.max_target];
            let item = framed_pair(framings, [ids(source)?, target], longest);
            Ok((item, bytes))
        };
        (0..texts.len()).into_par_iter().map(pair).collect()
    }
}

/// The message about training articles that give no pair.
fn left_out_note(left_out: usize) -> Option<String> {
    (left_out > 0).then(|| {
        format!("{left_out} training articles are left out: they have no lead, or no sections ([data] lead_ends)")
    })
}

pub(super) fn prepare(config: &ArticlesConfig, request: &Request) -> Result<Data> {
    let files = config.files();
    let mut articles = texts::TextCorpus::find(&files, request, true)?;
    let tokenizer = articles.tokenizer(request, |c| c.with_marks(&config.marks))?;
    let trained = request.tokenizer.is_some_and(|config| config.is_trained());
    let own = request.saved_tokenizers.text.is_none() && trained;
    let tokenizer = match request.run_shape {
        // A resumed run keeps the special tokens that its file names.
        Some(_) => tokenizer,
        None => {
            let marked = tokenizer.with_marks(&config.marks)?;
            let read = match own {
                // The special tokens that WordPiece puts around texts are only for encoders.
                true => marked.with_framing(TokenFraming::End)?,
                false => marked,
            };
            read.with_source_language(&config.marks)?
        }
    };
    let framings = framings([&tokenizer; 2], request.view)?;
    let mut sources = PerSplit::<Option<Arc<dyn Source>>>::default();
    let mut pairs = PerSplit::default();
    let mut tokens = PerSplit::default();
    let mut bytes_per_token = PerSplit::default();
    let mut left_out = 0;
    for split in Split::ALL.into_iter().filter(|split| config.has(*split)) {
        let documents = articles.documents(split)?;
        let (texts, without) = config.texts(&documents, split)?;
        if texts.is_empty() {
            return Err(Error::usage(format!(
                "[data] none of the {} article(s) of the {} split has both a lead and sections after a heading with {} or more `=` signs; see \
                 lead_ends",
                documents.len(),
                split.name(),
                config.lead_ends
            )));
        }
        let (items, bytes): (Vec<PairItem>, Vec<usize>) = config
            .encoded(&texts, &tokenizer, framings.each_ref())?
            .into_iter()
            .unzip();
        let scored: usize = items.iter().map(|item| item.target.len() - 1).sum();
        let read: usize = items.iter().map(|item| item.source.len() + 1).sum();
        *tokens.get_mut(split) = (read + scored) as u64;
        *bytes_per_token.get_mut(split) = Some(bytes.iter().sum::<usize>() as f64 / scored as f64);
        match split {
            Split::Train => left_out = without,
            Split::Valid | Split::Test => *pairs.get_mut(split) = Some(Arc::new(texts)),
        }
        *sources.get_mut(split) = Some(Arc::new(Pairs { items, split }));
    }
    let Some(train) = sources.train else {
        return Err(Error::run("[data] there is no article to train on"));
    };
    let shape = Shape {
        framed: is_framed([&tokenizer; 2], request.view)?,
        ..Shape::of_text(config.max_source, tokenizer.vocab_size())
    };
    Ok(Data {
        valid: sources.valid,
        test: sources.test,
        tokenizers: Tokenizers::single(tokenizer),
        bytes_per_token,
        tokens,
        pairs,
        left_out,
        unread: left_out_note(left_out).into_iter().collect(),
        ..Data::new(train, shape)
    })
}
