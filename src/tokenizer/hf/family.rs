//! The kind of tokenizer that a folder's files belong to, found by the transformers class or the model's type.

use super::settings::Settings;

/// A way of reading vocabulary files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// WordPiece, `[CLS] … [SEP]`.
    Bert,
    /// As BERT, but Chinese text is split by a dictionary.
    RoFormer,
    /// Byte-level BPE without a frame.
    Gpt2,
    /// As GPT-2, after NFC normalisation.
    GptNeox,
    /// As GPT-2, with `<s> … </s>` around a text; also BART.
    Roberta,
    /// As GPT-2 with `[CLS] … [SEP]` around a text.
    Deberta,
    /// BPE over lower-cased words that end with `</w>`.
    OpenAiGpt,
    /// Byte-level BPE with NFC and a rule of its own for words.
    Qwen2,
    /// SentencePiece with sentinels, `… </s>`.
    T5,
    /// SentencePiece over lower-cased text, `[CLS] … [SEP]`; also FNet.
    Albert,
    /// SentencePiece with a normalizer of its own, `[CLS] … [SEP]`.
    DebertaV2,
    /// SentencePiece with ids shifted by one, `<s> … </s>`.
    XlmRoberta,
    /// SentencePiece's BPE with bytes for unknown characters.
    Llama,
    /// Two SentencePiece models that share the ids of vocab.json.
    Marian,
    /// As XLM-RoBERTa, with language tokens, `en_XX … </s>`.
    MBart50,
    /// A SentencePiece model with the ids of vocab.json and language tokens, `__en__ … </s>`.
    M2M100,
    /// SentencePiece's BPE with language tokens, `eng_Latn … </s>`; only its tokenizer.json gives all ids.
    Nllb,
}

/// The kind of vocabulary files that a reader handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Files {
    /// vocab.txt.
    Words,
    /// vocab.json and merges.txt.
    Merges,
    /// A SentencePiece model.
    Pieces,
}

/// The family that the settings name.
#[derive(Debug, PartialEq, Eq)]
pub enum NamedFamily<'a> {
    /// A family.
    Family(Family),
    /// A class that has no family here.
    Unknown(&'a str),
    /// No class is named, and the model type has no family.
    Nothing,
}

impl Family {
    /// The vocabulary files of the family.
    pub fn files(self) -> Files {
        match self {
            Self::Bert | Self::RoFormer => Files::Words,
            Self::Gpt2
            | Self::GptNeox
            | Self::Roberta
            | Self::Deberta
            | Self::OpenAiGpt
            | Self::Qwen2 => Files::Merges,
            Self::T5
            | Self::Albert
            | Self::DebertaV2
            | Self::XlmRoberta
            | Self::Llama
            | Self::Marian
            | Self::MBart50
            | Self::M2M100
            | Self::Nllb => Files::Pieces,
        }
    }

    /// Whether this transformers class reads any tokenizer.json as it is.
    pub fn is_general(class: &str) -> bool {
        ["TokenizersBackend", "PreTrainedTokenizer", "PythonBackend"].contains(&class)
    }

    /// The family that the settings name, among those with such vocabulary files.
    pub fn named(settings: &Settings, files: Files) -> NamedFamily<'_> {
        let class = settings.class.as_deref();
        let class = class.filter(|name| !Self::is_general(name));
        if let Some(class) = class {
            return match of_class(class).filter(|family| family.files() == files) {
                Some(family) => NamedFamily::Family(family),
                None => NamedFamily::Unknown(class),
            };
        }
        let model = settings.model_type.as_deref().and_then(of_model);
        match model.filter(|family| family.files() == files) {
            Some(family) => NamedFamily::Family(family),
            None => NamedFamily::Nothing,
        }
    }
}

fn of_class(class: &str) -> Option<Family> {
    let family = match class.strip_suffix("Tokenizer")? {
        "Bert" | "DistilBert" | "Electra" | "MobileBert" | "ConvBert" | "Funnel" | "LayoutLM"
        | "SqueezeBert" | "Retribert" | "Lxmert" => Family::Bert,
        "RoFormer" => Family::RoFormer,
        "GPT2" | "CodeGen" => Family::Gpt2,
        "GPTNeoX" => Family::GptNeox,
        "Roberta" | "Bart" | "Longformer" | "LED" | "Mvp" => Family::Roberta,
        "Deberta" => Family::Deberta,
        "OpenAIGPT" => Family::OpenAiGpt,
        "Qwen2" => Family::Qwen2,
        "T5" | "MT5" => Family::T5,
        "Albert" | "FNet" => Family::Albert,
        "DebertaV2" => Family::DebertaV2,
        "XLMRoberta" => Family::XlmRoberta,
        "Llama" => Family::Llama,
        "Marian" => Family::Marian,
        "MBart50" => Family::MBart50,
        "M2M100" => Family::M2M100,
        "Nllb" => Family::Nllb,
        _ => return None,
    };
    Some(family)
}

/// The family of a `model_type`, as in transformers' table of tokenizers.
fn of_model(model_type: &str) -> Option<Family> {
    let family = match model_type {
        "bert" | "distilbert" | "electra" | "mobilebert" | "convbert" | "nezha" => Family::Bert,
        "roformer" => Family::RoFormer,
        "gpt2" | "gpt_neo" | "gptj" | "opt" | "phi" | "codegen" | "gpt_bigcode" | "starcoder2" => {
            Family::Gpt2
        }
        "gpt_neox" | "mpt" | "olmo" | "olmoe" | "mamba" | "mamba2" | "rwkv" | "falcon" => {
            Family::GptNeox
        }
        "roberta" | "bart" | "longformer" | "led" | "mvp" | "xlm-roberta-xl" => Family::Roberta,
        "deberta" => Family::Deberta,
        "openai-gpt" => Family::OpenAiGpt,
        "qwen2" | "qwen2_moe" | "qwen3" | "qwen3_moe" => Family::Qwen2,
        "t5" | "mt5" | "umt5" | "longt5" | "switch_transformers" => Family::T5,
        "albert" | "fnet" => Family::Albert,
        "deberta-v2" => Family::DebertaV2,
        "xlm-roberta" => Family::XlmRoberta,
        "llama" | "mistral" | "mixtral" => Family::Llama,
        "marian" => Family::Marian,
        "m2m_100" => Family::M2M100,
        _ => return None,
    };
    Some(family)
}
